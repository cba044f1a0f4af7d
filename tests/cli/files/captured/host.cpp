// Launches `kernel` of kernel.ptx as a program of nvcc does: registered before main, with arguments by their addresses.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);

namespace {

struct Given {
  float* out;
  float scale;
};

char kernel;

template <class T>
T driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
  return reinterpret_cast<T>(function);
}

float* numbers(int count) {
  void* address = nullptr;
  cudaMalloc(&address, count * sizeof(float));
  for (int i = 0; i < count; i++) static_cast<float*>(address)[i] = static_cast<float>(i);
  return static_cast<float*>(address);
}

}  // namespace

int main() {
  char name[] = "kernel";
  __cudaRegisterFunction(nullptr, &kernel, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  CUtensorMap column, tile;
  // Three images of four pixels with eight channels.
  const cuuint64_t dims[] = {8, 4, 3}, strides[] = {32, 128};
  const cuuint32_t steps[] = {1, 1, 1};
  const int lower[] = {-1}, upper[] = {1};
  const auto columns = driver<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  columns(&column, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, numbers(96), dims, strides, lower, upper, 8, 16, steps,
          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const cuuint64_t sides[] = {16, 4}, line[] = {64};
  const cuuint32_t box[] = {8, 4};
  const auto tiles = driver<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  tiles(&tile, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, numbers(64), sides, line, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  Given given{numbers(33) + 1, 1.5f};
  void* args[] = {&column, &tile, &given};
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2), config.blockDim = dim3(32), config.dynamicSmemBytes = 1024, config.attrs = &cluster, config.numAttrs = 1;
  return cudaLaunchKernelExC(&config, &kernel, args) == cudaSuccess ? 0 : 1;
}
