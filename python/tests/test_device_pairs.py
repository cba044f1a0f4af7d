"""Products of two matrices whose patterns are tensors. On the CPU they are read there; on a GPU the host never sees them."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Sizes with edges, and blocks of A and of B.
M, K, N, BM, BK, BN = 250, 330, 200, 64, 64, 32
DSS, SSS = (f"op = {op}, bm = {BM}, bk = {BK}, bn = {BN}" for op in ("dss", "sss"))


def masks(seed: int, density: float = 0.4) -> list:
    rng = np.random.default_rng(seed)
    return [rng.random(grid) < density for grid in ((4, 6), (6, 7))]


class Moving:
    """Two matrices with masks on a device, and room for all blocks."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self.flags = [torch.zeros(mask.shape, dtype=torch.bool, device=device) for mask in masks(0)]
        shapes = ((M, K), (BM, BK)), ((K, N), (BK, BN))
        self.patterns = [
            bsr.DevicePattern.from_mask(flags, *of, flags.numel()) for flags, of in zip(self.flags, shapes)
        ]
        self.values = [torch.zeros(of.capacity, *of.block, device=device, dtype=dtype) for of in self.patterns]
        self.matrices = [bsr.BsrMatrix(*of) for of in zip(self.values, self.patterns)]

    def move(self, seed: int, density: float = 0.4) -> list:
        """Other blocks and values, and the same on the host; NaN where no block is."""
        hosts, rng = [], np.random.default_rng(seed)
        for mask, flags, values, of in zip(masks(seed, density), self.flags, self.values, self.patterns):
            host = bsr.from_dense(rng.standard_normal(of.shape), of.block, mask=mask)
            flags.copy_(torch.from_numpy(mask))
            values.fill_(torch.nan)[: host.nnzb] = torch.from_numpy(host.values).to(values)
            of.changed()
            rounded = values[: host.nnzb].double().cpu()
            hosts.append(bsr.BsrMatrix(rounded, host.pattern))
        return hosts


def kind(device: str) -> torch.dtype:
    return torch.bfloat16 if device == "cuda" else torch.float64


def close(found, expected) -> None:
    tolerance = {torch.float64: 1e-10, torch.bfloat16: 3e-2, torch.float16: 1e-2}[found.dtype]
    torch.testing.assert_close(found.double().cpu(), expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("device", DEVICES)
def test_the_product_of_patterns_that_change(device) -> None:
    moving = Moving(device, kind(device))
    a, b = moving.matrices
    product = bsr.product_pattern(a, b)
    for seed in range(5):
        left, right = moving.move(seed, (0.4, 0.1, 0.9)[seed % 3])
        expected = left @ right
        c = a @ b
        assert c.pattern is product and c.values.shape[0] == product.capacity == 28
        close(c.values[: expected.nnzb], expected.values)
        assert not c.values[expected.nnzb :].any(), "places without a block"
        assert c.pattern.to_pattern() == expected.pattern
        close(c.to_dense(), expected.to_dense())
        # Other products take the result as it is.
        x = torch.randn(N, 8, device=device, dtype=kind(device))
        close(bsr.bsr_gemm(c, x), c.to_dense().double().cpu() @ x.double().cpu())
    c.pattern.check()


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_of_a_pattern_that_is_given(device) -> None:
    moving = Moving(device, kind(device))
    a, b = moving.matrices
    left, right = moving.move(1)
    wanted = bsr.Pattern.from_mask(np.random.default_rng(5).random((4, 7)) < 0.5, (M, N), (BM, BN))
    given = bsr.DevicePattern.from_pattern(wanted, device, wanted.nnzb + 3)
    c = bsr.matmul(a, b, pattern=given)
    close(c.values[: wanted.nnzb], bsr.matmul(left, right, pattern=wanted).values)
    assert c.pattern is given and not c.values[wanted.nnzb :].any()


@pytest.mark.parametrize("device", DEVICES)
def test_rows_beyond_the_capacity_have_no_blocks_and_are_told(device) -> None:
    moving = Moving(device, kind(device))
    a, b = moving.matrices
    left, right = moving.move(2, 1.0)
    few = bsr.product_pattern(a, b, capacity=15)
    assert bsr.product_pattern(a.pattern, b.pattern, capacity=15) is few
    c = bsr.matmul(a, b, pattern=few)
    close(c.values[:14], (left @ right).values[:14])
    assert not c.values[14:].any()
    with pytest.raises(bsr.Error, match="21 > 15, the capacity"):
        if device == "cpu":
            c.pattern.to_pattern()
        c.pattern.check()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", [DSS, SSS, DSS + ", c_layout = col", SSS + ", dtype = e4m3"])
def test_kernels(device, spec) -> None:
    is_narrow = "e4m3" in spec
    moving = Moving(device, torch.float8_e4m3fn if is_narrow else torch.float16)
    kernel = bsr.Kernel(spec)
    for seed in range(2):
        left, right = moving.move(seed)
        whole = left.to_dense() @ right.to_dense()
        found = kernel(*moving.matrices)
        close(found if "dss" in spec else found.to_dense(), whole)
        if "sss" in spec:
            stored = (left @ right).nnzb
            assert not found.values[stored:].any() and found.pattern.to_pattern() == (left @ right).pattern
    if device == "cpu":
        run = bsr.simulate(kernel, *moving.matrices)
        assert run.findings == []
        close(run.result if "dss" in spec else run.result.to_dense(), whole)


@pytest.mark.parametrize("device", DEVICES)
def test_epilogues(device) -> None:
    moving = Moving(device, torch.float16)
    dense = bsr.Kernel(DSS + ', epilogue = "|bias: Rows<f32>, alpha: f32| relu(alpha * acc + bias)"')
    blocks = bsr.Kernel(SSS + ', epilogue = "|alpha: f32| relu(alpha * acc)"')
    bias = torch.linspace(-1, 1, M, device=device)
    for seed in range(2):
        left, right = moving.move(seed)
        whole = left.to_dense() @ right.to_dense()
        close(dense(*moving.matrices, bias, 0.5), torch.relu(0.5 * whole + bias.double().cpu()[:, None]))
        close(blocks(*moving.matrices, alpha=0.5).to_dense(), torch.relu(0.5 * whole))
    with pytest.raises(bsr.Error, match=r"reads values of blocks of a pattern that lives on a device"):
        bsr.Kernel(SSS + ', epilogue = "|z: Bsr<f16>| acc * z"')(*moving.matrices, bias)


def test_what_patterns_on_a_device_do_not_compute() -> None:
    moving = Moving("cpu", torch.float64)
    a, b = moving.matrices
    left, right = moving.move(3)
    wrong = [
        (lambda: a @ right, r"the first operand is a DevicePattern, that of the second is not\n.*from_pattern\(b"),
        (lambda: left @ b, r"that of the second operand is a DevicePattern.*\n.*b.to_host"),
        (lambda: bsr.matmul(a, b, pattern=left @ right), r"the product is 250 x 200"),
        (lambda: bsr.product_pattern(a, right), r"are on cpu and the host"),
        (lambda: bsr.product_pattern(b, a), r"have no product"),
        (lambda: bsr.product_pattern(left, right, capacity=3), r"these are on the host"),
    ]
    for attempt, words in wrong:
        with pytest.raises(bsr.Error, match=words):
            attempt()
    values = a.values.nan_to_num().requires_grad_()
    c = bsr.BsrMatrix(values, a.pattern) @ b
    with pytest.raises(bsr.Error, match=r"computes no gradient\n.*to_host"):
        c.values.sum().backward()


def test_a_product_is_saved_with_its_factors() -> None:
    moving = Moving("cpu", torch.float64)
    moving.move(4)
    product = bsr.product_pattern(*moving.patterns)
    for twin in (pickle.loads(pickle.dumps(product)), copy.deepcopy(product)):
        assert twin is not product and twin.to_pattern() == product.to_pattern()
    assert "up to 28 blocks" in repr(product)


@pytest.mark.gpu
def test_one_graph_serves_thirty_patterns() -> None:
    moving = Moving("cuda", torch.float16)
    a, b = moving.matrices
    kernel = bsr.Kernel(DSS)
    moving.move(0)
    for _ in range(2):
        a @ b, kernel(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c, dense = a @ b, kernel(a, b)
    for seed in range(30):
        left, right = moving.move(seed, (0.4, 0.05, 0.9)[seed % 3])
        c.values.fill_(torch.nan)
        graph.replay()
        expected = left @ right
        close(c.values[: expected.nnzb], expected.values)
        close(dense, left.to_dense() @ right.to_dense())
    c.pattern.check()


@pytest.mark.gpu
def test_nothing_waits_for_the_gpu_and_what_is_gone_is_forgotten() -> None:
    from bsr_gemm._lib import _pairs

    moving = Moving("cuda", torch.float16)
    a, b = moving.matrices
    moving.move(0)
    a @ b
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for of in moving.patterns:
            of.changed()
        a @ b
    finally:
        torch.cuda.set_sync_debug_mode("default")
    key = a.pattern.key
    assert any(key in of for of in _pairs._ready)
    del a, b, moving, of
    # A factor and the patterns of its products know each other.
    gc.collect()
    assert not any(key in of for of in _pairs._ready)
