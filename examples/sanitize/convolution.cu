// Launches a convolution of CUTLASS, by tensor maps of im2col mode, for capture.cpp: N images of H x W pixels and K filters of R x S, C
// channels in half precision, sums in single precision: ./convolution N H W C K R S PADDING STRIDE
//
//   nvcc -std=c++17 --expt-relaxed-constexpr -gencode arch=compute_90a,code=compute_90a -lineinfo -Xfatbin -compress-mode=none --keep \
//       -I$CUTLASS/include -I$CUTLASS/tools/util/include -c convolution.cu
//   g++ -std=c++17 convolution.o capture.cpp -I$CUDA/include -o convolution
//   CAPTURE_PTX=convolution.ptx CAPTURE_SMS=4 ./convolution 2 9 11 72 40 3 3 1 1
//   bsr sanitize convolution.ptx --launch launches/0/launch.toml
//
// CUTLASS calls half precision u16 in these maps: in the launch file it is f16, of normal values.
#include <cstdio>
#include <cstdlib>

#include "cutlass/cutlass.h"
#include "cute/tensor.hpp"
#include "cute/atom/mma_atom.hpp"
#include "cutlass/numeric_types.h"
#include "cutlass/conv/device/conv_universal_adapter.hpp"
#include "cutlass/conv/kernel/conv_universal.hpp"
#include "cutlass/conv/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;
using Half = cutlass::half_t;
using Order = cutlass::layout::TensorNHWC;
using Block = Shape<_64, _64, Shape<_64>>;
using Cluster = Shape<_1, _1, _1>;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Block, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,
    float, float, float, Order, 4, float, Order, 4, cutlass::epilogue::TmaWarpSpecialized>::CollectiveOp;
using Mainloop = cutlass::conv::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, cutlass::conv::Operator::kFprop, Half, Order, 8, Half, Order, 8, float, Block, Cluster,
    cutlass::conv::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::conv::collective::KernelScheduleAuto>::CollectiveOp;
using Problem = cutlass::conv::ConvProblemShape<Mainloop::DispatchPolicy::ConvOp, Mainloop::DispatchPolicy::NumSpatialDimensions>;
using Kernel = cutlass::conv::kernel::ConvUniversal<Problem, Mainloop, Epilogue>;
using Convolution = cutlass::conv::device::ConvUniversalAdapter<Kernel>;

template <class T>
T* allocate(size_t count) {
  void* address;
  cudaMalloc(&address, count * sizeof(T));
  return static_cast<T*>(address);
}

int main(int, char** given) {
  int v[9];
  for (int i = 0; i < 9; i++) v[i] = atoi(given[i + 1]);
  const auto [n, h, w, c, k, r, s, pad, step] = v;
  const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {n, h, w, c}, {k, r, s, c}, {pad, pad}, {pad, pad}, {step, step}, {1, 1}, 1);
  typename Epilogue::StrideC stride{};
  cute::for_each(cute::make_seq<cute::rank<0>(typename Epilogue::StrideC{})>{}, [&](auto i) {
    cute::get<0, i>(stride) = problem.stride_C[Problem::RankT - 2 - i];
  });
  size_t out = 1;
  for (auto extent : problem.shape_C) out *= extent;
  float* d = allocate<float>(out);
  typename Convolution::Arguments args{
      problem, {allocate<Half>(size_t(n) * h * w * c), allocate<Half>(size_t(k) * r * s * c)}, {{}, d, stride, d, stride}, {0, 4}};
  args.epilogue.thread.alpha = 1, args.epilogue.thread.beta = 0;
  Convolution run;
  uint8_t* workspace = allocate<uint8_t>(Convolution::get_workspace_size(args) + 1);
  const bool launched = run.can_implement(args) == cutlass::Status::kSuccess &&
                        run.initialize(args, workspace) == cutlass::Status::kSuccess && run() == cutlass::Status::kSuccess;
  if (!launched) printf("CUTLASS refuses this convolution\n");
  return launched ? 0 : 1;
}
