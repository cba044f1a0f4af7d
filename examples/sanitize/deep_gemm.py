"""Launches of DeepGEMM's kernels for Hopper, with what NumPy expects of them: python3 deep_gemm.py FOLDER

Writes a CUDA file and a launch file for each kernel (DeepGEMM 54e2261, whose templates take their shapes as arguments):

    nvcc -ptx -std=c++20 -arch=sm_90a --expt-relaxed-constexpr -I$DEEP_GEMM/deep_gemm/include -I$CUTLASS/include FOLDER/bf16.cu
    bsr sanitize bf16.ptx --launch FOLDER/bf16/launch.toml
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# Blocks of 64 x 64, four stages, two blocks of 128 threads that copy and 128 that multiply.
TILE, STAGES, BLOCKS = 64, 4, 2
K = 128  # of a scale

RANDOM = np.random.default_rng(1)


def bf16(values: Array) -> Array:
    """The bits of the nearest bf16."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def half_of(bits: Array) -> Array:
    """The values of bf16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def e4m3(*shape: int) -> tuple[Array, Array]:
    """Bits of e4m3 numbers between 1/4 and 4 in magnitude, and their values."""
    bits = RANDOM.integers(0, 256, shape, dtype=np.uint8) & 0x87 | RANDOM.integers(5, 9, shape, dtype=np.uint8) << 3
    sign, exponent, fraction = bits >> 7, bits >> 3 & 15, bits & 7
    return bits, np.where(sign == 1, -1.0, 1.0) * (1 + fraction / 8) * 2.0 ** (exponent.astype(int) - 7)


def scales(*shape: int) -> Array:
    """Scales of FP8."""
    return RANDOM.uniform(0.5, 2, shape).astype(np.float32)


class Launch:
    """A kernel's buffers and parameters."""

    def __init__(self, folder: Path, name: str, header: str, template: str) -> None:
        """Writes the kernel's text."""
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        kernel = f"#include <deep_gemm/impls/{header}.cuh>\nusing namespace deep_gemm;\n"
        kernel += f"auto kernel = reinterpret_cast<void*>(&{template});\n"
        (folder / f"{name}.cu").write_text(kernel)
        self.buffers: list[str] = []
        self.params: list[str] = []

    def buffer(self, name: str, kind: str, values: Array, after: Array | str = "unchanged") -> str:
        """Places an array; `after` is what it must hold, or a word of the launch file."""
        np.save(self.folder / f"{name}.npy", values)
        if not isinstance(after, str):
            np.save(self.folder / f"{name}_after.npy", after)
            after = f"{name}_after.npy"
        text = f'[buffers.{name}]\ntype = "{kind}"\nshape = {list(values.shape)}\nvalues = "{name}.npy"\n'
        self.buffers.append(text + f'after = "{after}"\nalign = 256\n')
        return name

    def pass_(self, what: str) -> None:
        """Adds a parameter."""
        self.params.append(f"[[params]]\n{what}\n")

    def address(self, name: str) -> None:
        """The address of a buffer, or none."""
        self.pass_(f'buffer = "{name}"' if name else "value = 0")

    def numbers(self, *values: int) -> None:
        """Numbers, one parameter each."""
        for value in values:
            self.pass_(f"value = {value}")

    def map(self, name: str, box: Sequence[int], swizzle: int = 0, dims: Sequence[int] = (), pitch: int = 0) -> None:
        """A tensor map; of all of the buffer unless `dims` says otherwise, with lines of `pitch` bytes."""
        part = f", dims = {list(dims)}, strides = [{pitch}]" if dims else ""
        self.pass_(f'tensor_map = {{ buffer = "{name}", box = {list(box)}, swizzle = {swizzle}{part} }}')

    def write(self) -> None:
        """Writes the launch file."""
        head = f"grid = {BLOCKS}\nblock = 256\nshared = 200000\n\n"
        (self.folder / "launch.toml").write_text(head + "\n".join(self.buffers + self.params))


def halves(folder: Path, name: str, kind: str, m: int, groups: Sequence[int], n: int, k: int) -> None:
    """`sm90_bf16_gemm`: D = A B^T; `groups` says which B each 64 rows take."""
    count = max(groups) + 1
    template = (
        f"sm90_bf16_gemm_impl<cute::UMMA::Major::K, cute::UMMA::Major::K, 0, 0, 0, {count}, {TILE}, {TILE}, 64, 128, 128, 128, {STAGES}, "
        f"128, 128, 1, false, {BLOCKS}, GemmType::{kind}, false, cutlass::bfloat16_t>"
    )
    launch = Launch(folder, name, "sm90_bf16_gemm", template)
    a, b = bf16(RANDOM.normal(size=(m, k))), bf16(RANDOM.normal(size=(count * n, k)))
    rows = np.repeat(np.array(groups, dtype=np.int32), TILE)[:m]
    d = np.stack([half_of(a[i]) @ half_of(b[g * n : (g + 1) * n]).T for i, g in enumerate(rows)])
    launch.buffer("a", "bf16", a)
    launch.buffer("b", "bf16", b)
    launch.buffer("d", "bf16", np.full((m, n), 0xFFFF, dtype=np.uint16), bf16(d))
    launch.address(launch.buffer("groups", "i32", rows) if count > 1 else "")
    launch.numbers(m, n, k)
    for operand in ("a", "b", "d"):
        launch.map(operand, (64, TILE), 128)
    launch.write()


def scaled_rows(folder: Path, name: str, kind: str, m: int, groups: Sequence[int], n: int, k: int) -> None:
    """`sm90_fp8_gemm_1d2d`: scales of A for each row and 128 of K, of B for 128 x 128. Masked: `groups` are rows of each."""
    masked = kind == "MGroupedMasked"
    count = len(groups) if masked else max(groups) + 1
    template = (
        f"sm90_fp8_gemm_1d2d_impl<cute::UMMA::Major::K, 0, 0, 0, {count}, {TILE}, {TILE}, {K}, 128, 128, 128, {STAGES}, "
        f"128, 128, 1, false, {BLOCKS}, GemmType::{kind}, cutlass::bfloat16_t, epilogue::transform::EpilogueIdentity>"
    )
    launch = Launch(folder, name, "sm90_fp8_gemm_1d2d", template)
    parts, all_rows = -(-k // K), m * count if masked else m
    (a_bits, a), (b_bits, b) = e4m3(all_rows, k), e4m3(count * n, k)
    sfb = scales(count, -(-n // K), parts)
    sfa = scales(count if masked else 1, parts, -(-m // 4) * 4)
    d = np.zeros((all_rows, n), dtype=np.float32)
    written = np.zeros(all_rows, dtype=bool)
    for row in range(all_rows):
        group = row // m if masked else groups[row // TILE]
        # Blocks of a masked group that have one of its rows are written whole.
        written[row] = not masked or row % m < -(-groups[group] // TILE) * TILE
        for part in range(parts):
            at = slice(part * K, (part + 1) * K)
            sums = b[group * n : (group + 1) * n, at] @ a[row, at]
            scale = sfa[row // m if masked else 0, part, row % m]
            d[row] += sums * scale * np.repeat(sfb[group, :, part], K)[:n]
    start = np.full((all_rows, n), 0xFFFF, dtype=np.uint16)
    launch.buffer("a", "e4m3", a_bits)
    launch.buffer("b", "e4m3", b_bits)
    launch.buffer("sfa", "f32", sfa.reshape(-1, sfa.shape[-1]))
    launch.buffer("d", "bf16", start, np.where(written[:, None], bf16(d), start))
    launch.address(launch.buffer("sfb", "f32", sfb))
    rows = np.array(groups if masked else np.repeat(groups, TILE)[:m], dtype=np.int32)
    launch.address(launch.buffer("groups", "i32", rows) if count > 1 else "")
    launch.numbers(m, n, k)
    launch.map("a", (K, TILE), 128)
    launch.map("b", (K, TILE), 128)
    launch.map("d", (64, TILE), 128)
    launch.map("sfa", (TILE, 1))
    launch.write()


def scaled(folder: Path, name: str, m: int, n: int, depths: Sequence[int]) -> None:
    """`sm90_fp8_gemm_1d1d`: D += A B^T for each depth, with scales for each row of both and 128 of K."""
    groups = len(depths)
    kind = "Normal" if groups == 1 else "KGroupedContiguous"
    template = (
        f"sm90_fp8_gemm_1d1d_impl<0, 0, 0, {groups}, {TILE}, {TILE}, {K}, 128, 128, {STAGES}, 128, 128, 1, false, "
        f"{BLOCKS}, GemmType::{kind}, float>"
    )
    launch = Launch(folder, name, "sm90_fp8_gemm_1d1d", template)
    parts = [-(-k // K) for k in depths]
    sfa, sfb = scales(sum(parts), -(-m // 4) * 4), scales(sum(parts), -(-n // 4) * 4)
    start = RANDOM.normal(size=(groups, m, n)).astype(np.float32)
    d, packed = start.astype(np.float64), ([], [])
    for group, k in enumerate(depths):
        (a_bits, a), (b_bits, b) = e4m3(m, k), e4m3(n, k)
        packed[0].append(a_bits.ravel())
        packed[1].append(b_bits.ravel())
        for part in range(parts[group]):
            at, row = slice(part * K, (part + 1) * K), sum(parts[:group]) + part
            d[group] += (a[:, at] @ b[:, at].T) * sfa[row, :m, None] * sfb[row, None, :n]
    launch.buffer("a", "e4m3", np.concatenate(packed[0]))
    launch.buffer("b", "e4m3", np.concatenate(packed[1]))
    launch.buffer("sfa", "f32", sfa)
    launch.buffer("sfb", "f32", sfb)
    launch.buffer("d", "f32", start.reshape(-1, n), d.astype(np.float32).reshape(-1, n))
    grouped = groups > 1
    launch.address("a" if grouped else "")
    launch.address("b" if grouped else "")
    launch.address(launch.buffer("depths", "i32", np.array(depths, dtype=np.int32)) if grouped else "")
    launch.address(launch.buffer("maps", "u8", np.zeros(BLOCKS * 256, dtype=np.uint8), "any") if grouped else "")
    launch.numbers(m, n, sum(depths))
    launch.map("a", (K, TILE), 128, (depths[0], m), depths[0])
    launch.map("b", (K, TILE), 128, (depths[0], n), depths[0])
    launch.map("sfa", (TILE, 1))
    launch.map("sfb", (TILE, 1))
    launch.map("d", (TILE, TILE))
    launch.write()


def main() -> None:
    """Writes all of them."""
    folder = Path(sys.argv[1])
    halves(folder, "bf16", "Normal", 130, [0, 0, 0], 96, 640)
    halves(folder, "bf16_grouped", "MGroupedContiguous", 192, [0, 1, 1], 96, 640)
    scaled(folder, "fp8_1d1d", 132, 96, [1280])
    scaled(folder, "fp8_1d1d_k_grouped", 128, 96, [640, 256])
    scaled_rows(folder, "fp8_1d2d", "Normal", 132, [0, 0, 0], 192, 1280)
    scaled_rows(folder, "fp8_1d2d_grouped", "MGroupedContiguous", 192, [0, 1, 1], 192, 640)
    scaled_rows(folder, "fp8_1d2d_masked", "MGroupedMasked", 128, [70, 10], 192, 640)


if __name__ == "__main__":
    main()
