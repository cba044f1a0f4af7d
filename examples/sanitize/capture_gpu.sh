#!/usr/bin/env bash
# Captures launches of CUDA C++, of Triton and of a kernel of this project on a Hopper GPU, with what they leave, for a replay on a machine
# without one. Needs nvcc, CUPTI and a Python with Triton.
#
#   examples/sanitize/capture_gpu.sh OUT BSR      writes OUT/cuda.tar.gz, OUT/triton.tar.gz and OUT/own.tar.gz
#   examples/sanitize/replay.sh OUT BSR           unpacks and replays them
#
# BSR is the command. CUDA is the toolkit's folder (/usr/local/cuda).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
bsr=$(realpath "$2")
cuda=${CUDA:-/usr/local/cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

nvcc=$(command -v nvcc || printf '%s/bin/nvcc' "$cuda")
header=$(find -L "$cuda" -name cupti.h -print -quit)
library=$(find -L "$cuda" -name 'libcupti.so*' -print -quit)
driver=$(ldconfig -p | awk '/libcuda\.so\.1 / { path = $NF } END { print path }')
driver=${driver:-$(find /usr/local/nvidia /usr/lib -name libcuda.so.1 -print -quit 2>/dev/null)}
g++ -std=c++17 -O2 -shared -fPIC "$here/capture_gpu.cpp" -I"$cuda/include" -I"$(dirname "$header")" -o capture_gpu.so \
    "$library" "$driver" -Wl,-rpath,"$(dirname "$library")"
export CAPTURE_AFTER=1 PYTORCH_NO_CUDA_MEMORY_CACHING=1

# Runs a program of which launches are captured, in a folder of its own.
failed=0
one() {
    local name=$1
    shift
    mkdir "$name"
    (cd "$name" && CUDA_INJECTION64_PATH=$work/capture_gpu.so "$@") || { printf '%s: FAILED\n' "$name"; failed=1; }
    tar -czf "$out/$name.tar.gz" "$name"
}

"$nvcc" -std=c++17 -gencode arch=compute_90a,code=compute_90a -lineinfo -Xfatbin -compress-mode=none -o captured "$here/captured.cu" || failed=1
one cuda ../captured
CAPTURE_ONLY=captured one triton python3 "$here/captured.py" .
CAPTURE_ONLY=bsr_ one own "$bsr" run 'bm = 128, bn = 64, bk = 64, cluster = 2' --device gpu --m 256 --n 136 --k 200 --pattern topk:2
ls -l "$out"
exit "$failed"
