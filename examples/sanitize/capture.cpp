// Stands in for the CUDA runtime and driver where there is no GPU, and writes a launch file of `bsr sanitize` for every
// kernel that a program launches. Memory is host memory, and no kernel runs: buffers that only kernels fill hold zeros, for
// which the launch file draws values. What the program then says of its results means nothing.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=compute_90a -lineinfo -Xfatbin -compress-mode=none -c gemm.cu
//   g++ -std=c++17 gemm.o capture.cpp -I$CUDA/include -o gemm
//   nvcc -ptx -std=c++17 -arch=sm_90a gemm.cu
//   CAPTURE_PTX=gemm.ptx CAPTURE_FOLDER=launches ./gemm
//   bsr sanitize gemm.o --launch launches/0/launch.toml
//
// CAPTURE_SMS is the number of multiprocessors that the program sees (8), which bounds the grid of persistent kernels;
// CAPTURE_ONLY a part of the names of kernels that are written (all).
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Address = unsigned long long;

struct TensorMap {
  CUtensorMapDataType type;
  Address address;
  std::vector<Address> dims, strides;
  std::vector<unsigned> box, steps;
  int swizzle;
  bool fill_nan;
};

struct Area {
  size_t bytes;
  std::string name;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
};

// Registration runs before main, in any order of the files: each of these is made at its first use.
std::vector<TensorMap>& tensor_maps() { static std::vector<TensorMap> all; return all; }
std::map<Address, Area>& areas() { static std::map<Address, Area> all; return all; }
std::map<const void*, std::string>& kernels() { static std::map<const void*, std::string> all; return all; }
std::vector<Configuration>& configurations() { static std::vector<Configuration> all; return all; }

const char* setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value ? value : otherwise;
}

// Addresses are far from those of the host, so that a word of a structure that is one can be told.
void* allocate(size_t bytes) {
  constexpr size_t all = 8ull << 30;
  static char* top = static_cast<char*>(mmap(reinterpret_cast<void*>(0x5a0000000000), all, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0));
  static char* const end = top + all;
  const size_t taken = (bytes + 255) / 256 * 256 + 256;
  if (top + taken > end) {
    fprintf(stderr, "capture: more than 8 GiB are allocated; choose a small problem\n");
    exit(1);
  }
  char* found = top;
  top += taken;
  areas()[reinterpret_cast<Address>(found)] = {bytes, "b" + std::to_string(areas().size())};
  return found;
}

const Area* area_of(Address address, Address* offset) {
  auto next = areas().upper_bound(address);
  if (next == areas().begin()) return nullptr;
  --next;
  *offset = address - next->first;
  return *offset < std::max<size_t>(next->second.bytes, 1) ? &next->second : nullptr;
}

// Bytes of each parameter, from the declarations in the PTX.
std::vector<size_t> parameter_bytes(const std::string& kernel) {
  static const std::string text = [] {
    std::ifstream file(setting("CAPTURE_PTX", ""));
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  const size_t start = text.find(".entry " + kernel + "(");
  if (start == std::string::npos) {
    fprintf(stderr, "capture: CAPTURE_PTX has no kernel %s\n", kernel.c_str());
    return {};
  }
  const std::string head = text.substr(start, text.find(')', start) - start);
  static const std::regex parameter(R"(\.param\s+(?:\.align\s+\d+\s+)?(?:\.ptr\s+)?\.[a-z]+(\d+)[^,\[]*(?:\[(\d+)\])?)");
  std::vector<size_t> bytes;
  for (std::sregex_iterator at(head.begin(), head.end(), parameter), end; at != end; ++at) {
    const size_t count = (*at)[2].matched ? std::stoul((*at)[2]) : 1;
    bytes.push_back(std::stoul((*at)[1]) / 8 * count);
  }
  return bytes;
}

// The type of a tensor map's elements, in a launch file.
const char* element(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return "u8";
    case CU_TENSOR_MAP_DATA_TYPE_UINT16: return "u16";
    case CU_TENSOR_MAP_DATA_TYPE_UINT32: return "u32";
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return "i32";
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return "u64";
    case CU_TENSOR_MAP_DATA_TYPE_INT64: return "i64";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return "f16";
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return "bf16";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return "f64";
    default: return "f32";
  }
}

size_t width(const std::string& type) {
  const size_t digit = type.find_first_of("123468");
  return std::stoul(type.substr(digit)) / 8;
}

template <class T>
std::string list(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  return text + "]";
}

// What an encoded tensor map starts with here.
constexpr Address kMark = 0x7a3b5e11d00dfeedull;

class Launch {
 public:
  // What lies in some bytes, as fields: tensor maps, addresses, and runs of other words.
  std::vector<std::string> fields(const unsigned char* bytes, size_t count) {
    std::vector<std::string> found;
    std::vector<unsigned> words;
    size_t first = 0;
    auto flush = [&] {
      size_t zeros = 0;
      while (!words.empty() && words.back() == 0) words.pop_back();
      while (zeros < words.size() && words[zeros] == 0) zeros++;
      words.erase(words.begin(), words.begin() + zeros);
      if (!words.empty()) found.push_back(field(first + 4 * zeros, "type = \"u32\", value = " + list(words)));
      words.clear();
    };
    for (size_t at = 0; at < count;) {
      Address word = 0, offset = 0;
      memcpy(&word, bytes + at, std::min<size_t>(8, count - at));
      const bool aligned = at % 8 == 0 && at + 8 <= count;
      const Area* area = aligned ? area_of(word, &offset) : nullptr;
      if (at % 64 == 0 && at + 128 <= count && word == kMark) {
        flush();
        unsigned number;
        memcpy(&number, bytes + at + 8, 4);
        const std::string map = tensor_map(tensor_maps()[number]);
        if (!map.empty()) found.push_back(field(at, "tensor_map = " + map));
        at += 128;
      } else if (area) {
        flush();
        used.insert(area->name);
        found.push_back(field(at, "buffer = \"" + area->name + "\", offset = " + std::to_string(offset)));
        at += 8;
      } else if (at + 4 <= count) {
        if (words.empty()) first = at;
        words.push_back(static_cast<unsigned>(word));
        at += 4;
      } else {
        flush();
        found.push_back(field(at, "type = \"u8\", value = " + std::to_string(bytes[at])));
        at += 1;
      }
    }
    flush();
    return found;
  }

  // Every buffer that something points to, and those that their contents point to.
  std::string buffers(const std::string& folder) {
    std::ostringstream out;
    std::set<std::string> done;
    for (bool more = true; more;) {
      more = false;
      for (const auto& [start, area] : areas()) {
        if (!used.count(area.name) || !done.insert(area.name).second) continue;
        more = true;
        const std::string type = types.count(area.name) ? types[area.name] : "u8";
        const size_t elements = area.bytes / width(type);
        const auto* bytes = reinterpret_cast<const unsigned char*>(start);
        const bool zero = std::all_of(bytes, bytes + area.bytes, [](unsigned char byte) { return byte == 0; });
        const auto inside = fields(bytes, area.bytes);
        const bool points = std::any_of(inside.begin(), inside.end(), [](const std::string& one) {
          return one.find("buffer = ") != std::string::npos;
        });
        out << "\n[buffers." << area.name << "]\ntype = \"" << type << "\"\nshape = [" << elements << "]\nalign = 256\n";
        if (zero) {
          const bool fraction = type[0] == 'f' || type[0] == 'b';
          out << (fraction ? "values = \"normal\"\n" : "values = 0\n") << "seed = " << done.size() << "\n";
        } else if (points) {
          out << "values = 0\nfields = [\n";
          for (const auto& one : inside) out << "  " << one << ",\n";
          out << "]\n";
        } else {
          out << "values = \"" << area.name << ".npy\"\n";
          npy(folder + "/" + area.name + ".npy", type, elements, bytes, area.bytes);
        }
      }
    }
    return out.str();
  }

 private:
  static std::string field(size_t at, const std::string& what) {
    return "{ at = " + std::to_string(at) + ", " + what + " }";
  }

  std::string tensor_map(const TensorMap& map) {
    Address offset;
    const Area* area = area_of(map.address, &offset);
    if (!area) return "";
    used.insert(area->name);
    const std::string type = element(map.type);
    types.emplace(area->name, type);
    static const int spans[] = {0, 32, 64, 128};
    std::ostringstream out;
    out << "{ buffer = \"" << area->name << "\", offset = " << offset << ", type = \"" << type << "\", dims = "
        << list(map.dims) << ", strides = " << list(map.strides) << ", box = " << list(map.box)
        << ", element_strides = " << list(map.steps) << ", swizzle = " << spans[map.swizzle & 3]
        << ", fill_nan = " << (map.fill_nan ? "true" : "false") << " }";
    return out.str();
  }

  static void npy(const std::string& path, const std::string& type, size_t elements, const unsigned char* bytes,
                  size_t count) {
    const std::string kind = type == "bf16" ? "u" : type.substr(0, 1), size = std::to_string(width(type));
    std::string head = "{'descr': '" + std::string(size == "1" ? "|" : "<") + kind + size +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(elements) + ",), }";
    head.resize((head.size() + 11 + 63) / 64 * 64 - 11, ' ');
    head += '\n';
    const auto length = static_cast<unsigned short>(head.size());
    std::ofstream file(path, std::ios::binary);
    file.write("\x93NUMPY\x01\x00", 8);
    file.write(reinterpret_cast<const char*>(&length), 2);
    file << head;
    file.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  }

  std::set<std::string> used;
  std::map<std::string, std::string> types;
};

std::string sizes(dim3 of) {
  return "[" + std::to_string(of.x) + ", " + std::to_string(of.y) + ", " + std::to_string(of.z) + "]";
}

cudaError_t launched(const void* function, dim3 grid, dim3 block, dim3 cluster, size_t shared, void** args) {
  static int launches = 0;
  const int number = launches++;
  const std::string kernel = kernels()[function];
  fprintf(stderr, "capture: launch %d is %s\n", number, kernel.c_str());
  if (kernel.find(setting("CAPTURE_ONLY", "")) == std::string::npos) return cudaSuccess;
  const std::string all = setting("CAPTURE_FOLDER", "launches"), folder = all + "/" + std::to_string(number);
  mkdir(all.c_str(), 0777);
  mkdir(folder.c_str(), 0777);
  Launch launch;
  std::ostringstream params;
  const auto bytes = parameter_bytes(kernel);
  for (size_t i = 0; i < bytes.size(); i++) {
    params << "\n[[params]]  # " << bytes[i] << " bytes\nfields = [\n";
    const auto* start = static_cast<const unsigned char*>(args[i]);
    for (const auto& one : launch.fields(start, bytes[i])) params << "  " << one << ",\n";
    params << "]\n";
  }
  const std::string buffers = launch.buffers(folder);
  std::ofstream(folder + "/launch.toml") << "entry = \"" << kernel << "\"\ngrid = " << sizes(grid) << "\ncluster = "
                                         << sizes(cluster) << "\nblock = " << sizes(block) << "\nshared = " << shared
                                         << "\n" << buffers << params.str();
  return cudaSuccess;
}

int attribute(int which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMultiProcessorCount: return atoi(setting("CAPTURE_SMS", "8"));
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 233472;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrWarpSize: return 32;
    default: return 1;
  }
}

template <class T>
CUresult fill(CUdeviceptr at, T value, size_t count) {
  std::fill_n(reinterpret_cast<T*>(at), count, value);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// What nvcc's host code calls.
void** __cudaRegisterFatBinary(void* binary) { static void* last; last = binary; return &last; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernels()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t) {
  configurations().push_back({grid, block, shared});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Configuration last = configurations().back();
  configurations().pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

// Launches.
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launched(kernel, grid, block, dim3(1, 1, 1), shared, args);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launched(function, grid, block, dim3(1, 1, 1), shared, args);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  dim3 cluster(1, 1, 1);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const auto& one = config->attrs[i];
    if (one.id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z);
  }
  return launched(function, config->gridDim, config->blockDim, cluster, config->dynamicSmemBytes, args);
}

// Memory.
cudaError_t cudaMalloc(void** at, size_t bytes) { *at = allocate(bytes); return cudaSuccess; }
cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { memset(to, value, bytes); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream) { return fill(at, value, count); }
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count, CUstream) { return fill(at, value, count); }
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream) { return fill(at, value, count); }

// Tensor maps.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const auto number = static_cast<unsigned>(tensor_maps().size());
  tensor_maps().push_back({type, reinterpret_cast<Address>(address), {dims, dims + rank}, {strides, strides + rank - 1},
                           {box, box + rank}, {steps, steps + rank}, swizzle, fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE});
  memset(map, 0, sizeof *map);
  memcpy(map, &kMark, 8);
  memcpy(reinterpret_cast<char*>(map) + 8, &number, 4);
  return CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  if (!known) fprintf(stderr, "capture: %s of the driver is not here\n", symbol);
  *function = known ? reinterpret_cast<void*>(cuTensorMapEncodeTiled) : nullptr;
  if (result) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, result);
}

// The device.
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) { *value = attribute(which); return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  memset(properties, 0, sizeof *properties);
  properties->major = 9;
  properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  properties->sharedMemPerBlockOptin = 232448;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  *clusters = attribute(cudaDevAttrMultiProcessorCount);
  return cudaSuccess;
}

// Everything succeeds, at once.
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "no error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaSuccess"; }
CUresult cuGetErrorString(CUresult, const char** text) { *text = "no error"; return CUDA_SUCCESS; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { *stream = nullptr; return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = nullptr; return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { *event = nullptr; return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }

}  // extern "C"
