// Writes a launch file of `bsr sanitize` for kernels that a program launches on a GPU: the parameters, the memory that they
// point to as it is before the launch, tensor maps, and the module if it has PTX. The program runs as it is, compiled or in
// Python; the driver loads this library and CUPTI calls it.
//
//   g++ -std=c++17 -O2 -shared -fPIC capture_gpu.cpp -I$CUDA/include -L$CUDA/lib64 -lcupti -l:libcuda.so.1 -o capture_gpu.so
//   CUDA_INJECTION64_PATH=$PWD/capture_gpu.so CAPTURE_ONLY=gemm python3 train.py
//   bsr sanitize kernel.ptx --launch launches/0/launch.toml
//
// CAPTURE_ONLY is a part of the names of kernels that are captured (all), CAPTURE_COUNT how many launches of each (1),
// CAPTURE_FOLDER where they are written (launches). With CAPTURE_AFTER=1 the launch file also says what the kernel left, so that a
// replay is compared with the GPU. An allocation is a buffer: PyTorch puts many tensors into one unless
// PYTORCH_NO_CUDA_MEMORY_CACHING=1 is set, and an access beyond a tensor is found only where its allocation ends.
#include <cuda.h>
#include <cupti.h>

#include <mutex>

#include "launch_file.hpp"

namespace {

using namespace launch_file;

// Allocations of the device, asked of the driver: each as long as one launch is written.
class DeviceMemory : public Memory {
 public:
  const Area* area_of(Address address) override {
    // Words that are no addresses are not worth a call of the driver.
    if (address < (1ull << 32) || address >= (1ull << 47)) return nullptr;
    auto next = areas.upper_bound(address);
    if (next != areas.begin()) {
      const Area& area = (--next)->second;
      if (address - area.start < area.bytes) return &area;
    }
    CUdeviceptr start;
    size_t bytes;
    if (cuMemGetAddressRange(&start, &bytes, address) != CUDA_SUCCESS) return nullptr;
    return &(areas[start] = {start, bytes, "b" + std::to_string(areas.size())});
  }
  Bytes read(const Area& area) override {
    Bytes bytes(area.bytes);
    if (cuMemcpyDtoH(bytes.data(), area.start, area.bytes) != CUDA_SUCCESS)
      fprintf(stderr, "capture: %s, %zu bytes at %#llx, cannot be read\n", area.name.c_str(), area.bytes, area.start);
    return bytes;
  }
  bool is_filled() const override { return true; }

 private:
  std::map<Address, Area> areas;
};

// A module that has PTX: text, or a fat binary.
struct Module {
  const char* kind;
  Bytes bytes;
};

// A launch that has begun.
struct Begun {
  DeviceMemory memory;
  Writer writer{memory};
  std::string kernel, where;
};

struct State {
  std::mutex lock;
  std::map<std::string, int> launches;
  std::map<const void*, Module> modules;
  // By the correlation number of the call.
  std::map<unsigned, Begun> begun;
  int number = 0;
};
State& state() { static State all; return all; }

// A copy of what is loaded, which the program may free. Machine code alone has no PTX.
Module copy(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  unsigned magic;
  memcpy(&magic, bytes, 4);
  if (magic == 0x466243b1) {
    // The structure that nvcc's host code passes: a magic number, a version, and where the fat binary is.
    memcpy(&bytes, bytes + 8, 8);
    memcpy(&magic, bytes, 4);
  }
  if (magic == 0xba55ed50) {
    unsigned short head;
    unsigned long long body;
    memcpy(&head, bytes + 6, 2);
    memcpy(&body, bytes + 8, 8);
    return {"fatbin", Bytes(bytes, bytes + head + body)};
  }
  const bool code = magic == 0x464c457f;
  return {"ptx", Bytes(bytes, bytes + (code ? 0 : strlen(reinterpret_cast<const char*>(bytes))))};
}

// The module of a function as a file in a folder, if it has PTX. The function may be a kernel of a library: the runtime passes
// those.
std::string write_module(CUfunction function, const std::string& where) {
  CUmodule module;
  CUlibrary library;
  const void* key = nullptr;
  if (cuKernelGetLibrary(&library, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS) key = library;
  else if (cuFuncGetModule(&module, function) == CUDA_SUCCESS) key = module;
  const auto found = state().modules.find(key);
  if (found == state().modules.end() || found->second.bytes.empty()) return "";
  const std::string path = where + "/module." + found->second.kind;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(found->second.bytes.data()), static_cast<std::streamsize>(found->second.bytes.size()));
  return path;
}

bool parameter(CUfunction function, size_t number, size_t* offset, size_t* bytes) {
  return cuFuncGetParamInfo(function, number, offset, bytes) == CUDA_SUCCESS ||
         cuKernelGetParamInfo(reinterpret_cast<CUkernel>(function), number, offset, bytes) == CUDA_SUCCESS;
}

// The bytes of each parameter, from pointers to them or from one buffer with all.
std::vector<Bytes> parameters(CUfunction function, void** pointers, void** extra) {
  const unsigned char* all = nullptr;
  for (void** at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2)
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) all = static_cast<const unsigned char*>(at[1]);
  std::vector<Bytes> found;
  size_t offset, bytes;
  while ((pointers || all) && parameter(function, found.size(), &offset, &bytes)) {
    const auto* start = pointers ? static_cast<const unsigned char*>(pointers[found.size()]) : all + offset;
    found.emplace_back(start, start + bytes);
  }
  return found;
}

void capture(unsigned call, CUfunction function, CUstream stream, Launch launch, void** pointers, void** extra) {
  if (!wanted(launch.kernel)) return;
  const std::lock_guard<std::mutex> locked(state().lock);
  if (state().launches[launch.kernel]++ >= std::stoi(setting("CAPTURE_COUNT", "1"))) return;
  CUstreamCaptureStatus status;
  if (cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE) {
    fprintf(stderr, "capture: %s is launched into a graph, where memory cannot be read\n", launch.kernel.c_str());
    state().launches[launch.kernel]--;
    return;
  }
  cuCtxSynchronize();
  launch.params = parameters(function, pointers, extra);
  Begun& begun = state().begun[call];
  begun.kernel = launch.kernel;
  begun.where = folder(std::to_string(state().number++));
  const std::string module = write_module(function, begun.where);
  begun.writer.before(begun.where, launch, module.empty() ? "# The module is machine code alone.\n" : "# The kernel: " + module + "\n");
}

// The launch returns: what the kernel has left is read where that is asked for.
void launched(unsigned call) {
  const std::lock_guard<std::mutex> locked(state().lock);
  const auto found = state().begun.find(call);
  if (found == state().begun.end()) return;
  Begun& begun = found->second;
  if (setting("CAPTURE_AFTER", "0") != "0") {
    if (cuCtxSynchronize() == CUDA_SUCCESS) begun.writer.after();
    else fprintf(stderr, "capture: %s fails, and what it leaves is not read\n", begun.kernel.c_str());
  }
  begun.writer.finish();
  fprintf(stderr, "capture: %s is in %s\n", begun.kernel.c_str(), begun.where.c_str());
  state().begun.erase(found);
}

// A launch with a list of attributes.
void capture(unsigned call, const CUlaunchConfig& config, CUfunction function, Launch launch, void** pointers, void** extra) {
  launch.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  launch.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  launch.shared = config.sharedMemBytes;
  for (unsigned i = 0; i < config.numAttrs; i++) {
    const CUlaunchAttribute& one = config.attrs[i];
    if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch.cluster = {one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z};
    if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      launch.dependent = one.value.programmaticStreamSerializationAllowed != 0;
  }
  capture(call, function, config.hStream, launch, pointers, extra);
}

void before(CUpti_CallbackId id, const CUpti_CallbackData& call) {
  Launch launch{call.symbolName ? call.symbolName : "", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 0, false, {}};
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    const auto& of = *static_cast<const cuLaunchKernelEx_params*>(call.functionParams);
    capture(call.correlationId, *of.config, of.f, launch, of.kernelParams, of.extra);
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz) {
    const auto& of = *static_cast<const cuLaunchKernel_params*>(call.functionParams);
    launch.grid = {of.gridDimX, of.gridDimY, of.gridDimZ};
    launch.block = {of.blockDimX, of.blockDimY, of.blockDimZ};
    launch.shared = of.sharedMemBytes;
    capture(call.correlationId, of.f, of.hStream, launch, of.kernelParams, of.extra);
  }
}

void after(CUpti_CallbackId id, const CUpti_CallbackData& call) {
  launched(call.correlationId);
  if (*static_cast<const CUresult*>(call.functionReturnValue) != CUDA_SUCCESS) return;
  const std::lock_guard<std::mutex> locked(state().lock);
  if (id == CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeTiled) {
    const auto& of = *static_cast<const cuTensorMapEncodeTiled_params*>(call.functionParams);
    const auto rank = of.tensorRank;
    remember(of.tensorMap, {of.tensorDataType, reinterpret_cast<Address>(of.globalAddress),
                            {of.globalDim, of.globalDim + rank}, {of.globalStrides, of.globalStrides + rank - 1},
                            {of.boxDim, of.boxDim + rank}, {of.elementStrides, of.elementStrides + rank},
                            of.swizzle, of.oobFill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, {}, {}});
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeIm2col) {
    const auto& of = *static_cast<const cuTensorMapEncodeIm2col_params*>(call.functionParams);
    const auto rank = of.tensorRank;
    remember(of.tensorMap, {of.tensorDataType, reinterpret_cast<Address>(of.globalAddress),
                            {of.globalDim, of.globalDim + rank}, {of.globalStrides, of.globalStrides + rank - 1},
                            {of.channelsPerPixel, of.pixelsPerColumn}, {of.elementStrides, of.elementStrides + rank},
                            of.swizzle, of.oobFill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                            {of.pixelBoxLowerCorner, of.pixelBoxLowerCorner + rank - 2},
                            {of.pixelBoxUpperCorner, of.pixelBoxUpperCorner + rank - 2}});
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData) {
    const auto& of = *static_cast<const cuModuleLoadData_params*>(call.functionParams);
    state().modules[*of.module] = copy(of.image);
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx) {
    const auto& of = *static_cast<const cuModuleLoadDataEx_params*>(call.functionParams);
    state().modules[*of.module] = copy(of.image);
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData) {
    const auto& of = *static_cast<const cuLibraryLoadData_params*>(call.functionParams);
    state().modules[*of.library] = copy(of.code);
  }
}

void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER) before(id, call);
  else after(id, call);
}

}  // namespace

// What the driver calls once it is ready.
extern "C" int InitializeInjection() {
  CUpti_SubscriberHandle subscriber;
  bool ready = cuptiSubscribe(&subscriber, called, nullptr) == CUPTI_SUCCESS;
  for (CUpti_CallbackId id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                              CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                              CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeTiled,
                              CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeIm2col, CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData,
                              CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx, CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData})
    ready = ready && cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id) == CUPTI_SUCCESS;
  if (!ready) fprintf(stderr, "capture: CUPTI has another subscriber (a profiler?), so nothing is captured\n");
  return 1;
}
