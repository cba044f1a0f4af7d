"""Triton compiles every kernel of the table for Hopper: no GPU is needed. Without BSR_EVERY_KERNEL=1, those that
`--quick` tries."""

import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

if os.environ.get("TRITON_INTERPRET") == "1":
    raise unittest.SkipTest("Triton was imported with its interpreter; run this file alone")
try:
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.compiler import ASTSource
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch and Triton are needed: {missing}") from missing

from .. import split_peer, stk_peer, triton_kernels, triton_peer
from ..case import Case
from ..peer import Refused
from ..rows import ROWS, Row

NAMES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.int32: "i32",
}
CTA_SHARED = 232_448


class Recorder:
    """Stands where a kernel does; compiles what it would have launched."""

    def __init__(self, kernel: Any, ptxas: str) -> None:
        self.kernel, self.ptxas, self.seen = kernel, ptxas, 0

    def __getitem__(self, grid: object) -> Any:
        """A launch."""
        return self.compile

    def compile(self, *arguments: Any, num_warps: int, num_stages: int = 3, **constants: Any) -> None:
        """Raises what Triton or ptxas say; AssertionError for spills and shared memory."""
        signature, attributes = dict.fromkeys(constants, "constexpr"), {}
        for at, (parameter, value) in enumerate(zip(self.kernel.params, arguments, strict=False)):
            name, special = parameter.name, not parameter.do_not_specialize
            match value:
                case TensorDescriptor():
                    signature[name] = f"tensordesc<{NAMES[value.base.dtype]}{list(value.block_shape)}>".replace(" ", "")
                case torch.Tensor():
                    signature[name] = f"*{NAMES[value.dtype]}"
                case 1 if special:
                    signature[name], constants[name] = "constexpr", 1
                case _:
                    signature[name] = "i32"
            if isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0 and special):
                attributes[(at,)] = [["tt.divisibility", 16]]
        source = ASTSource(
            self.kernel, {name: signature[name] for name in self.kernel.arg_names}, constants, attributes
        )
        options = {"num_warps": num_warps, "num_stages": num_stages}
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert made.metadata.shared <= CTA_SHARED, f"{made.metadata.shared} B of shared memory"
        self.seen += 1
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(made.asm["ptx"])
            file.flush()
            command = [self.ptxas, "-v", "--gpu-name=sm_90a", file.name, "-o", os.devnull]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        assert " 0 bytes spill stores" in said, said
        assert "C75" not in said, said


def shrunk(row: Row) -> Row:
    """The same blocks in a matrix that is quickly drawn."""
    height, width = row.block
    columns = min(row.n, 512)
    sides = {"dsd": (2 * height, columns, 4 * width), "dsd_t": (2 * width, columns, 4 * height)}
    m, n, k = sides.get(row.op) or ((512, 2 * width, 4 * height) if row.op == "dds" else (2 * height, 2 * width, 512))
    return replace(row, m=m, n=n, k=k, pattern="random:0.5")


class Compiled(unittest.TestCase):
    """Without spills, within shared memory, WGMMAs not serialized."""

    def test_every_kernel_of_the_table(self) -> None:
        """A variant that fails would be left out when tuning; none should be."""
        every = os.environ.get("BSR_EVERY_KERNEL") == "1"
        ptxas = get_ptxas(90).path
        seen = 0
        peers = (triton_peer.TritonTma(), triton_peer.TritonGather(), split_peer.TritonSplitK(), stk_peer.StkLike())
        for row in {(row.op, row.block, row.dtype, min(row.dense_side, 256)): row for row in ROWS}.values():
            for peer in peers:
                with mock.patch.multiple(
                    triton_kernels,
                    dsd_kernel=(dsd := Recorder(triton_kernels.dsd_kernel, ptxas)),
                    dds_kernel=(dds := Recorder(triton_kernels.dds_kernel, ptxas)),
                    sdd_kernel=(sdd := Recorder(triton_kernels.sdd_kernel, ptxas)),
                    gather_kernel=(gather := Recorder(triton_kernels.gather_kernel, ptxas)),
                    split_kernel=(split := Recorder(triton_kernels.split_kernel, ptxas)),
                    sum_kernel=(sums := Recorder(triton_kernels.sum_kernel, ptxas)),
                ), mock.patch.multiple(
                    stk_peer,
                    dsd_like=(like_dsd := Recorder(stk_peer.dsd_like, ptxas)),
                    sdd_like=(like_sdd := Recorder(stk_peer.sdd_like, ptxas)),
                ):  # fmt: skip
                    try:
                        variants = list(peer.variants(Case(shrunk(row), "cpu"), quick=not every))
                    except Refused:
                        continue
                    for variant in variants:
                        with self.subTest(row=row.name, peer=peer.name, variant=variant.words):
                            variant.run()
                    used = (dsd, dds, sdd, gather, split, sums, like_dsd, like_sdd)
                    seen += sum(kernel.seen for kernel in used)
        print(f"{seen} kernels compiled", file=sys.stderr)
        self.assertGreater(seen, 20)


if __name__ == "__main__":
    unittest.main()
