// Launches FlashAttention 3's forward kernel of head size 128 for capture.cpp: ./flash QUERIES KEYS CAUSAL, of two heads that share keys and
// values. An even number of tiles of 128 queries runs in clusters of two blocks.
//
//   for F in SPLIT PAGEDKV APPENDKV SOFTCAP LOCAL PACKGQA VARLEN; do less="$less -DFLASHATTENTION_DISABLE_$F"; done
//   nvcc -std=c++17 --expt-relaxed-constexpr --expt-extended-lambda -DNDEBUG $less -gencode arch=compute_90a,code=compute_90a -lineinfo \
//       -Xfatbin -compress-mode=none --keep -I$FLASH_ATTENTION/hopper -I$CUTLASS/include -c flash_attention.cu
//   g++ -std=c++17 flash_attention.o capture.cpp -I$CUDA/include -o flash
//   CAPTURE_PTX=flash_attention.ptx CAPTURE_SMS=4 ./flash 300 400 0
//   bsr sanitize flash_attention.ptx --launch launches/0/launch.toml
#include <cstdio>
#include <cstdlib>

#include "flash_fwd_launch_template.h"

constexpr int HEADS = 2, SIZE = 128;

void* allocate(size_t bytes) {
  void* address;
  cudaMalloc(&address, bytes);
  return address;
}

int main(int, char** given) {
  const int queries = atoi(given[1]), keys = atoi(given[2]);
  const size_t q = size_t(queries) * HEADS * SIZE, k = size_t(keys) * SIZE;
  Flash_fwd_params all{};
  all.q_ptr = allocate(2 * q), all.k_ptr = allocate(2 * k), all.v_ptr = allocate(2 * k), all.o_ptr = allocate(2 * q);
  all.softmax_lse_ptr = allocate(sizeof(float) * HEADS * queries);
  all.tile_count_semaphore = static_cast<int*>(allocate(sizeof(int)));
  all.q_row_stride = all.o_row_stride = HEADS * SIZE, all.k_row_stride = all.v_row_stride = SIZE;
  all.q_head_stride = all.k_head_stride = all.v_head_stride = all.o_head_stride = SIZE;
  all.q_batch_stride = all.o_batch_stride = q, all.k_batch_stride = all.v_batch_stride = k, all.v_dim_stride = 1;
  all.b = all.b_k = all.h_k = all.num_splits = 1, all.h = HEADS, all.seqlen_q = queries, all.seqlen_k = keys;
  all.d = all.dv = all.d_rounded = all.dv_rounded = SIZE, all.scale_softmax = 0.08838834764f;
  all.is_bf16 = true, all.is_causal = atoi(given[3]), all.window_size_left = -1, all.window_size_right = all.is_causal ? 0 : -1;
  all.arch = 90, all.num_sm = 4;
  run_mha_fwd_<90, cutlass::bfloat16_t, SIZE, SIZE, false, false, false, false>(all, nullptr);
}
