// Launches to capture: a product, the same without a barrier, and copies in im2col mode. All sums are of small whole numbers, so that
// a replay must have the same bits as a GPU.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=compute_90a -lineinfo -Xfatbin -compress-mode=none -o captured captured.cu
//   CUDA_INJECTION64_PATH=$PWD/capture_gpu.so CAPTURE_AFTER=1 ./captured
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int TILE = 16;

// What a kernel is given: three matrices and their sizes.
struct Product {
  const float *a, *b;
  float* c;
  int m, n, k;
  float scale;
};

// C = scale * A B by tiles in shared memory. Without the second barrier a warp may overwrite what another one still reads.
template <bool is_right>
__global__ void __launch_bounds__(TILE* TILE) multiply(const Product of) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0;
  for (int start = 0; start < of.k; start += TILE) {
    a[y][x] = row < of.m && start + x < of.k ? of.a[row * of.k + start + x] : 0;
    b[y][x] = start + y < of.k && column < of.n ? of.b[(start + y) * of.n + column] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += a[y][i] * b[i][x];
    if (is_right) __syncthreads();
  }
  if (row < of.m && column < of.n) of.c[row * of.n + column] = of.scale * sum;
}

constexpr int CHANNELS = 8, PIXELS = 32, FILTER = 3;

// The columns of a convolution: PIXELS pixels, from one on, for each tap of a filter of 3 x 3, by one copy each.
__global__ void __launch_bounds__(32) columns(const __grid_constant__ CUtensorMap map, float* out, int width, int height) {
  __shared__ __align__(128) float tile[FILTER * FILTER][PIXELS * CHANNELS];
  __shared__ __align__(8) uint64_t bar;
  const auto shared = [](const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); };
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&bar)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&bar)), "r"(static_cast<uint32_t>(sizeof tile)) : "memory");
    // Pixels are counted within the box of the filter's corner, whose first is one before the image.
    const int first = blockIdx.x * PIXELS, w = first % width - 1, h = first / width % height - 1, n = first / width / height;
    for (uint16_t tap = 0; tap < FILTER * FILTER; tap++)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {0, %2, %3, %4}], [%5], {%6, %7};" ::"r"(
              shared(tile[tap])),
          "l"(&map), "r"(w), "r"(h), "r"(n), "r"(shared(&bar)), "h"(static_cast<uint16_t>(tap % FILTER)), "h"(static_cast<uint16_t>(tap / FILTER))
          : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(shared(&bar))
      : "memory");
  for (int i = threadIdx.x; i < FILTER * FILTER * PIXELS * CHANNELS; i += 32)
    out[blockIdx.x * FILTER * FILTER * PIXELS * CHANNELS + i] = tile[0][i];
}

void check(int error, const char* what) {
  if (error == 0) return;
  printf("%s: error %d\n", what, error);
  exit(1);
}

// Memory with whole numbers from -4 to 4, or with none.
float* allocate(size_t count, unsigned seed) {
  void* address;
  check(cudaMalloc(&address, count * sizeof(float)), "cudaMalloc");
  std::vector<float> values(count);
  for (size_t i = 0; i < count; i++) values[i] = seed ? static_cast<int>((i * 2654435761u + seed * 40503u >> 13) % 9) - 4 : 0;
  check(cudaMemcpy(address, values.data(), count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<float*>(address);
}

decltype(&cuTensorMapEncodeIm2col) encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &function, 12000, cudaEnableDefault, &found), "the driver");
  return reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(function);
}

}  // namespace

int main() {
  const int m = 70, n = 45, k = 50;
  const Product product{allocate(m * k, 1), allocate(k * n, 2), allocate(m * n, 0), m, n, k, 0.5f};
  const dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
  multiply<true><<<grid, block>>>(product);
  multiply<false><<<grid, block>>>(product);

  const int width = 11, height = 9, images = 2, blocks = (width * height * images + PIXELS - 1) / PIXELS;
  CUtensorMap map;
  const cuuint64_t dims[] = {CHANNELS, width, height, images};
  const cuuint64_t strides[] = {CHANNELS * 4, CHANNELS * 4 * width, CHANNELS * 4 * width * height};
  const int lower[] = {-1, -1}, upper[] = {-1, -1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  check(encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, allocate(CHANNELS * width * height * images, 3), dims, strides, lower, upper,
                  CHANNELS, PIXELS, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeIm2col");
  columns<<<blocks, 32>>>(map, allocate(blocks * FILTER * FILTER * PIXELS * CHANNELS, 0), width, height);
  check(cudaDeviceSynchronize(), "the kernels");
  return 0;
}
