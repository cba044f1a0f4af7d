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
// What runs on a GPU is captured by capture_gpu.cpp. CAPTURE_SMS is the number of multiprocessors that the program sees (8), which bounds the grid of persistent kernels;
// CAPTURE_ONLY a part of the names of kernels that are written (all).
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <regex>

#include "launch_file.hpp"

namespace {

using namespace launch_file;

struct Configuration {
  dim3 grid, block;
  size_t shared;
};

// Registration runs before main, in any order of the files: each of these is made at its first use.
std::map<Address, Area>& areas() { static std::map<Address, Area> all; return all; }
std::map<const void*, std::string>& kernels() { static std::map<const void*, std::string> all; return all; }
std::vector<Configuration>& configurations() { static std::vector<Configuration> all; return all; }

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
  const auto found = reinterpret_cast<Address>(top);
  top += taken;
  areas()[found] = {found, bytes, "b" + std::to_string(areas().size())};
  return reinterpret_cast<void*>(found);
}

class HostMemory : public Memory {
 public:
  const Area* area_of(Address address) override {
    auto next = areas().upper_bound(address);
    if (next == areas().begin()) return nullptr;
    const Area& area = (--next)->second;
    return address - area.start < std::max<size_t>(area.bytes, 1) ? &area : nullptr;
  }
  Bytes read(const Area& area) override {
    const auto* start = reinterpret_cast<const unsigned char*>(area.start);
    return Bytes(start, start + area.bytes);
  }
  bool is_filled() const override { return false; }
};

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

cudaError_t launched(const void* function, dim3 grid, dim3 block, dim3 cluster, size_t shared, void** args) {
  static int launches = 0;
  const int number = launches++;
  const std::string kernel = kernels()[function];
  fprintf(stderr, "capture: launch %d is %s\n", number, kernel.c_str());
  if (!wanted(kernel)) return cudaSuccess;
  auto sizes = [](dim3 of) { return Sizes{of.x, of.y, of.z}; };
  Launch launch{kernel, sizes(grid), sizes(block), sizes(cluster), shared, false, {}};
  for (size_t bytes : parameter_bytes(kernel)) {
    const auto* start = static_cast<const unsigned char*>(args[launch.params.size()]);
    launch.params.emplace_back(start, start + bytes);
  }
  HostMemory memory;
  Writer writer(memory);
  writer.before(folder(std::to_string(number)), launch, "");
  writer.finish();
  return cudaSuccess;
}

int attribute(int which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMultiProcessorCount: return std::stoi(setting("CAPTURE_SMS", "8"));
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
static CUresult encode(CUtensorMap* map, const TensorMap& of) {
  // Any bytes that tell it from others.
  const size_t number = tensor_maps().size() + 1;
  memset(map, 0x5a, sizeof *map);
  memcpy(map, &number, sizeof number);
  remember(map, of);
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  return encode(map, {type, reinterpret_cast<Address>(address), {dims, dims + rank}, {strides, strides + rank - 1},
                      {box, box + rank}, {steps, steps + rank}, swizzle, fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, {}, {}});
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps, CUtensorMapInterleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  return encode(map, {type, reinterpret_cast<Address>(address), {dims, dims + rank}, {strides, strides + rank - 1},
                      {channels, pixels}, {steps, steps + rank}, swizzle, fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                      {lower, lower + rank - 2}, {upper, upper + rank - 2}});
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (strcmp(symbol, "cuTensorMapEncodeTiled") == 0) *function = reinterpret_cast<void*>(cuTensorMapEncodeTiled);
  if (strcmp(symbol, "cuTensorMapEncodeIm2col") == 0) *function = reinterpret_cast<void*>(cuTensorMapEncodeIm2col);
  if (!*function) fprintf(stderr, "capture: %s of the driver is not here\n", symbol);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
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
