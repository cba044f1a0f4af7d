"""Sizes: what a machine cannot hold is refused before it is taken, and blocks of any size need little beside them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from conftest import alone

import bsr_gemm as bsr

# A process with 1 GB more than it has after its imports; two threads, as stacks count, too.
PROGRAM = """
import resource, numpy as np, bsr_gemm as bsr
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)

def refused(what, use):
    try:
        use()
    except bsr.Error as error:
        assert f"{what} takes" in str(error) and "are available" in str(error), error
    else:
        raise SystemExit(f"{what} was had")

large = bsr.BsrMatrix(np.ones((1, 64, 64), np.float32), bsr.Pattern((1 << 20, 1 << 20), (64, 64), [0, 1] + [1] * 16383, [0]))
refused("the dense matrix", large.to_dense)
refused("the result", lambda: large @ np.broadcast_to(np.float32(1), (1 << 20, 1024)))
refused("the mask of all blocks", lambda: bsr.Pattern((1 << 20, 1 << 20), (16, 16), [0] * 65537, []).mask())
block = bsr.Pattern((64, 64), (1 << 20, 1 << 20), [0, 1], [0])
refused("the result", lambda: bsr.sddmm(np.ones((64, 8)), np.ones((8, 64)), block))
wide = bsr.Pattern((64, 2**31 - 1), (64, 1), [0, 1], [5])
refused("the index of the transposed pattern", wide.transposed)
print(large, wide)
try:
    bsr.AttentionMask.full((1 << 20, 1 << 20), (32, 32))
except bsr.Error as error:
    assert "stored blocks take" in str(error) and "larger blocks" in str(error), error
else:
    raise SystemExit("2^30 blocks take 5 GB of lists")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system does not tell how much memory it has")
def test_memory_is_asked_for_before_it_is_taken() -> None:
    alone(PROGRAM, RAYON_NUM_THREADS="2", OPENBLAS_NUM_THREADS="1")


def test_masks_of_more_blocks_than_lists_count_are_refused() -> None:
    for make in (bsr.AttentionMask.full, bsr.AttentionMask.causal):
        with pytest.raises(bsr.Error, match="134217728 x 134217728 blocks, above 2\\^32"):
            make((2**27, 2**27), (1, 1))


def test_a_block_that_is_larger_than_the_matrix_is_not_copied() -> None:
    empty = bsr.BsrMatrix(
        np.zeros((0, 1 << 24, 1 << 24), np.float32), bsr.Pattern((64, 48), (1 << 24, 1 << 24), [0, 0], [])
    )
    assert np.array_equal(empty @ np.ones((48, 3), np.float32), np.zeros((64, 3), np.float32))
    assert np.array_equal(np.ones((3, 64), np.float32) @ empty, np.zeros((3, 48), np.float32))


@pytest.mark.parametrize("block", [(512, 112), (300, 520), (1000, 1)])
def test_large_blocks_are_multiplied_in_parts(rng, block) -> None:
    w = bsr.from_dense(rng.standard_normal((1100, 700)), block, keep=0.6)
    dense, x, y = w.to_dense(), rng.standard_normal((700, 70)), rng.standard_normal((1100, 70))
    assert np.allclose(w @ x, dense @ x, atol=1e-9) and np.allclose(y.T @ w, y.T @ dense, atol=1e-9)
    stored = bsr.from_dense(np.ones((1100, 700)), block, mask=w.pattern.mask()).to_dense()
    assert np.allclose(bsr.sddmm(y, x.T, w).to_dense(), (y @ x.T) * stored, atol=1e-9)


def test_rows_of_large_blocks_are_collected_in_parts(rng) -> None:
    bias = rng.standard_normal(1100).astype(np.float32)
    epilogue = 'epilogue = "|bias: Rows<f32>| { let y = acc + bias; (y, row_sum(y)) }"'
    w = bsr.from_dense(rng.standard_normal((1100, 224)).astype(np.float16), (512, 112), keep=0.6)
    x = rng.standard_normal((224, 70)).astype(np.float16)
    kernel = bsr.Kernel(f"bm = 512, bn = 128, bk = 112, dtype = f16, out = f32, {epilogue}")
    result, sums = kernel(w, x, bias)
    expected = w.to_dense().astype(np.float64) @ x + bias[:, None]
    assert np.allclose(result, expected, atol=1e-3) and np.allclose(sums, expected.sum(axis=1), atol=1e-2)
    a, b = rng.standard_normal((1100, 64)).astype(np.float16), rng.standard_normal((64, 224)).astype(np.float16)
    kernel = bsr.Kernel(f"op = sdd, bm = 512, bn = 64, bk = 112, dtype = f16, out = f32, {epilogue}")
    result, sums = kernel(a, b, bias, like=w)
    stored = bsr.from_dense(np.ones((1100, 224)), (512, 112), mask=w.pattern.mask()).to_dense()
    expected = (a.astype(np.float64) @ b + bias[:, None]) * stored
    assert np.allclose(result.to_dense(), expected, atol=1e-3) and np.allclose(sums, expected.sum(axis=1), atol=1e-2)
