"""What is launched on a GPU, seen without one: launches are computed on the CPU from the addresses that they are given."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402
from bsr_gemm._lib import _arrays, _float8, _gpu, _launch, _native, _torch, _tuned  # noqa: E402


class Loaded:
    """A kernel that is chosen: what was asked."""

    def __init__(self, facts: str, epilogue: str | None) -> None:
        self.facts = dict(part.split(" = ") for part in facts.split(", "))
        self.epilogue = epilogue


class Gpu:
    """Chooses kernels, and takes those that the program has."""

    tuned: list = []

    def tune(self, pattern, facts, n):
        self.tuned.append((facts, n))
        return "kernel    bm = 16", None if len(self.tuned) > 1 else "{}\n"

    def choose(self, pattern, facts, n, epilogue, is_list):
        if epilogue is not None and "tanh" in epilogue and pattern.block == (4, 4):
            raise bsr.Error("no kernel for this block")
        return Loaded(facts, epilogue)

    def sparse(self, pattern, kind):
        return kind


def strided(address, kind, shape):
    rows, cols, is_col, stride = shape
    assert address % 16 == 0 and stride * _arrays.BYTES[kind] % 16 == 0, "TMA addresses vectors of 16 bytes"
    return (address, kind, rows, cols, 1, stride) if is_col else (address, kind, rows, cols, stride, 1)


class Ready:
    """A product that only lacks its addresses."""

    launches = 0

    def __init__(self, loaded, kind, pattern, shapes, further, second) -> None:
        self.loaded, self.kind, self.pattern, self.shapes = loaded, kind, pattern, shapes
        self.further, self.second = further, second

    def input(self, described, place):
        name, what, kind, rows, cols, stride = described
        if what == "vector":
            # A row of C is an output, a column a token: a bias has a value for each output.
            if name == "xs":
                return name, (place, kind, 1, rows, 0, 1)
            return name, (place, kind, rows, 1, 1, 0)
        assert what == "dense"
        return name, strided(place, kind, (rows, cols, True, stride))

    def launch(self, values, first, second, stream, *places) -> None:
        type(self).launches += 1
        facts, kind = self.loaded.facts, self.loaded.facts["dtype"]
        assert stream == 7 and len(places) == len(self.further) + (self.second is not None)
        if facts.get("op") == "sdd":
            (bm, bk), blocks = self.pattern.block, self.pattern.nnzb
            out = (values, facts["out"], blocks * bm, bk, bk, 1)
            a, b = strided(first, kind, self.shapes[0]), strided(second, kind, self.shapes[1])
            assert [facts["a_layout"], facts["b_layout"]] == ["col" if shape[2] else "row" for shape in self.shapes]
            return _native.multiply_sddmm(self.pattern, a, b, out)
        assert [facts["b_layout"], facts["c_layout"]] == ["col" if shape[2] else "row" for shape in self.shapes]
        given = [self.input(described, place) for described, place in zip(self.further, places)]
        epilogue = None if self.loaded.epilogue is None else (self.loaded.epilogue, given)
        sums = None if self.second is None else (places[-1], "f32", self.second, 1, 1, 0)
        dense, out = strided(first, kind, self.shapes[0]), strided(second, facts["out"], self.shapes[1])
        transpose = facts["transpose"] == "on"
        (bm, bk), blocks = self.pattern.block, self.pattern.nnzb
        return _native.multiply(self.pattern, transpose, (values, kind, blocks * bm * bk), dense, out, epilogue, sums)


class Batch:
    """Products of one launch."""

    launches = 0

    def __init__(self, loaded, problems) -> None:
        self.problems = [
            (Ready(loaded, None, pattern, (dense[1], out[1]), (), None), values, dense[0], out[0])
            for pattern, values, dense, out in problems
        ]

    def launch(self, stream) -> None:
        type(self).launches += 1
        for ready, values, dense, out in self.problems:
            ready.launch(values, dense, out, stream)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch, rng):
    yield from replaced(monkeypatch, Gpu, [_launch], {"Ready": Ready, "Batch": Batch})


def replaced(monkeypatch, gpu, modules, natives):
    """Puts the fakes where a GPU would be, and counts their launches from 0."""
    monkeypatch.setattr(_gpu, "gpu_of", lambda index: gpu())
    monkeypatch.setattr(_gpu, "OnDevice", lambda index: contextlib.nullcontext())
    for module in modules:
        monkeypatch.setattr(module, "_stream", lambda index: 7)
        monkeypatch.setattr(module, "_device", lambda: -1)
    for name, fake in natives.items():
        monkeypatch.setattr(_native, name, fake)
        monkeypatch.setattr(fake, "launches", 0)
    caches = (*_gpu.further_caches, _gpu._layers, _gpu._ready, _gpu._loaded, _gpu._sparse, _gpu._without)
    for cache in caches:
        cache.clear()
    yield
    for cache in caches:
        cache.clear()


def matrix(m, k, block, dtype=torch.bfloat16):
    return bsr.from_dense(torch.randn(m, k, dtype=dtype) / 4, block, keep=0.6)


@pytest.mark.parametrize("bias", [None, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_second_launch_computes_what_the_first_did(bias, activation, transpose) -> None:
    w = matrix(64, 48, (16, 8))
    inputs, outputs = (64, 48) if transpose else (48, 64)
    bias = None if bias is None else torch.randn(outputs, dtype=bias)
    for _ in range(2):
        x = torch.randn(24, inputs, dtype=torch.bfloat16)
        expected = torch.ops.bsr_gemm.linear(x, w.values, bias, w.key, transpose, activation)
        for operand in (x, x.t().contiguous().t()):
            how = (operand, w.values, bias, w.key, transpose, activation)
            before = _launch.direct(*how)
            found = _torch._linear_cuda(*how)
            known = _launch.direct(*how)
            assert torch.equal(found, expected) and known is not None and torch.equal(known, expected)
            assert found.stride() == known.stride()
            if before is not None:
                assert torch.equal(before, expected)
    assert len(_gpu._layers) == 2, "one entry for each way to lie in memory"


def test_more_dimensions_are_remembered_too() -> None:
    w = matrix(64, 48, (16, 8))
    x = torch.randn(2, 3, 48, dtype=torch.bfloat16)
    flat = x.reshape(-1, 48)
    out = _torch._linear_cuda(flat, w.values, None, w.key).view(2, 3, 64)
    _launch.remember_as(x, flat, out, None, (w.key, False, "none"))
    known = _launch.direct(x, w.values, None, w.key, False, "none")
    assert known.shape == (2, 3, 64) and torch.equal(known, out)
    apart = x.transpose(0, 1)
    _launch.remember_as(apart, apart.reshape(-1, 48), out.transpose(0, 1), None, (w.key, False, "none"))
    assert _launch.direct(apart, w.values, None, w.key, False, "none") is None


def test_what_does_not_fit_a_known_launch_takes_the_long_way() -> None:
    w, x = matrix(64, 48, (16, 8)), torch.randn(24, 48, dtype=torch.bfloat16)
    bias = torch.randn(64)
    _torch._linear_cuda(x, w.values, None, w.key)
    _torch._linear_cuda(x, w.values, bias, w.key)
    assert _launch.direct(x, w.values, bias, w.key, False, "none") is not None
    wide = torch.randn(24 * 48 + 8, dtype=torch.bfloat16)
    apart = torch.randn(64, 2)[:, 0]
    for operand, values, added in [
        (wide[1 : 24 * 48 + 1].view(24, 48), w.values, None),
        (x[:8], w.values, None),
        (x, w.values.half(), None),
        (x, w.values[1:], None),
        (x, w.values.transpose(1, 2).contiguous().transpose(1, 2), None),
        (x, w.values, bias[1:]),
        (x, w.values, apart),
        (x, w.values, bias.double()),
    ]:
        assert _launch.direct(operand, values, added, w.key, False, "none") is None
    shifted = wide[1 : 24 * 48 + 1].view(24, 48).copy_(x)
    assert torch.equal(
        _torch._linear_cuda(shifted, w.values, None, w.key), _torch._linear_cuda(x, w.values, None, w.key)
    )
    with pytest.raises(bsr.Error, match="63 x|bias is 63"):
        _torch._linear_cuda(x, w.values, bias[1:], w.key)


@pytest.mark.parametrize("block, bias", [((16, 16), False), ((16, 16), True), ((16, 8), False)])
def test_f32_is_rounded_to_tf32_where_pytorch_allows_it(monkeypatch, block, bias) -> None:
    asked = []
    monkeypatch.setattr(_gpu, "capability_of", lambda index: (9, 0))
    monkeypatch.setattr(_gpu, "_chosen", lambda index, pattern, facts, *_: asked.append(facts) or Loaded(facts, None))
    w, x = matrix(64, 48, block, torch.float32), torch.randn(24, 48)
    added = torch.randn(64) if bias else None
    expected = torch.ops.bsr_gemm.linear(x, w.values, added, w.key)
    for precision in ["highest", "high", "medium", "highest"]:
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda precision=precision: precision)
        found = _torch._linear_cuda(x, w.values, added, w.key)
        torch.testing.assert_close(found, expected)
        is_rounded = precision != "highest" and block == (16, 16)
        # In TF32 operands are multiplied where they lie, so that a second call finds its product.
        known = _launch.direct(x, w.values, added, w.key, False, "none")
        assert (known is not None) == (is_rounded and not bias)
        assert known is None or torch.equal(known, found)
    exact = "transpose = off, b_layout = row, c_layout = row"
    rounded = "transpose = off, b_layout = col, c_layout = col, tf32 = on"
    assert [facts.partition("out = f32, ")[2] for facts in asked] == (
        [exact, rounded] if block == (16, 16) else [exact]
    )


def test_padded_results_are_not_remembered() -> None:
    w, x = matrix(61, 48, (16, 8)), torch.randn(5, 48, dtype=torch.bfloat16)
    for _ in range(2):
        found = _torch._linear_cuda(x, w.values, None, w.key)
        assert torch.equal(found, torch.ops.bsr_gemm.linear(x, w.values, None, w.key)) and found.is_contiguous()
    assert not _gpu._layers


@pytest.mark.parametrize("activation", bsr.ACTIVATIONS)
@pytest.mark.parametrize("hidden", [48, 44])
def test_the_gradient_of_an_activation_is_part_of_a_product(activation, hidden) -> None:
    w = matrix(64, hidden, (16, 8))
    dy, kept = torch.randn(24, 64, dtype=torch.bfloat16), torch.randn(24, hidden, dtype=torch.bfloat16)
    how = (dy, w.values, kept, w.key, False, activation)
    dz, sums = _torch._linear_gradient_cuda(*how)
    assert Ready.launches == 1
    expected, expected_sums = torch.ops.bsr_gemm.linear_gradient(*how)
    assert dz.shape == (24, hidden) and sums.dtype == torch.float32
    tolerance = {} if hidden == 48 else {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(dz, expected, **tolerance)
    torch.testing.assert_close(sums, expected_sums, atol=1e-4 if hidden == 48 else 0.5, rtol=1e-4)


def test_a_block_without_such_a_kernel_takes_a_step_of_its_own() -> None:
    w = matrix(32, 32, (4, 4))
    dy, z = torch.randn(24, 32, dtype=torch.bfloat16), torch.randn(24, 32, dtype=torch.bfloat16)
    for _ in range(2):
        dz, sums = _torch._linear_gradient_cuda(dy, w.values, z, w.key, False, "gelu")
        expected, expected_sums = torch.ops.bsr_gemm.linear_gradient(dy, w.values, z, w.key, False, "gelu")
        torch.testing.assert_close(dz, expected, atol=0.05, rtol=0.05)
        torch.testing.assert_close(sums, expected_sums, atol=0.2, rtol=0.02)
    assert len(_gpu._without) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(24, 48), (5, 33)])
def test_layers_of_float8_are_launched(dtype, shape) -> None:
    w, bias = matrix(64, shape[1], (16, 16)), torch.randn(64, dtype=torch.bfloat16)
    layer = nn.Float8BlockSparseLinear.from_layer(nn.BlockSparseLinear.from_matrix(w, bias))
    x, scale = _float8.quantise_rows(torch.randn(shape))
    for operand in (x, x.t().contiguous().t()):
        how = (operand, scale, layer.weight, layer.weight_scale, bias, layer._key, "silu", dtype)
        found, expected = _float8._cuda(*how), torch.ops.bsr_gemm.float8_linear(*how)
        assert found.dtype == dtype and torch.equal(found, expected)
    assert Ready.launches == 2


def test_sddmms_are_launched() -> None:
    w = matrix(64, 48, (16, 8))
    a, b = torch.randn(24, 64, dtype=torch.bfloat16).t(), torch.randn(24, 48, dtype=torch.bfloat16)
    for _ in range(2):
        assert torch.equal(_torch._sddmm_cuda(a, b, w.key), torch.ops.bsr_gemm.sddmm(a, b, w.key))
    assert len(_gpu._ready) == 1 and Ready.launches == 2


def test_a_batch_is_one_launch(rng) -> None:
    ws = [matrix(64, 48, (16, 8)), matrix(61, 40, (16, 8)), matrix(32, 41, (16, 8))]
    ws.append(bsr.BsrMatrix(torch.zeros(0, 16, 8, dtype=torch.bfloat16), bsr.Pattern((48, 16), (16, 8), [0] * 4, [])))
    xs = [torch.randn(rows, w.shape[1], dtype=torch.bfloat16) for rows, w in zip((24, 7, 5, 3), ws)]
    xs[0] = xs[0].t().contiguous().t()
    results, prepared = _launch.prepare_batch(xs, ws)
    for _ in range(2):
        _launch.launch_batch(prepared, None)
        for found, x, w in zip(results, xs, ws):
            assert torch.equal(found, torch.ops.bsr_gemm.linear(x, w.values, None, w.key))
        for x in xs:
            x.copy_(torch.randn_like(x))
    assert Batch.launches == 2
    empty, prepared = _launch.prepare_batch(xs[3:], ws[3:])
    _launch.launch_batch(prepared, None)
    assert not empty[0].any() and Batch.launches == 2


def test_an_empty_pattern_is_not_launched() -> None:
    w = bsr.from_dense(torch.zeros(32, 32, dtype=torch.bfloat16), (16, 16))
    found = _torch._linear_cuda(torch.ones(4, 32, dtype=torch.bfloat16), w.values, torch.ones(32), w.key, False, "relu")
    assert w.nnzb == 0 and (found == 1).all() and Ready.launches == 0
    assert not np.any(_torch._sddmm_cuda(torch.ones(32, 4), torch.ones(4, 32), w.key).numpy())


def test_a_first_use_measures_where_the_settings_say_so(monkeypatch, tmp_path) -> None:
    table = tmp_path / "tuned.jsonl"
    monkeypatch.setattr(_tuned, "_settings", _tuned._Settings())
    monkeypatch.setattr(Gpu, "tuned", [])
    w, x = matrix(64, 48, (16, 8)), torch.randn(24, 48, dtype=torch.bfloat16)
    _torch._linear_cuda(x, w.values, None, w.key)
    assert Gpu.tuned == [], "by default it is predicted"
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    bsr.set_tuning("measure", table=table)
    for _ in range(2):
        _torch._linear_cuda(x, w.values, None, w.key)
    assert len(Gpu.tuned) == 1 and Gpu.tuned[0][1] == 24 and "transpose = off" in Gpu.tuned[0][0]
    _torch._linear_cuda(x, w.values, torch.ones(64), w.key, False, "gelu")
    assert len(Gpu.tuned) == 2, "an epilogue is another kernel of the same choice, which the table then has"
    assert table.read_text() == "{}\n" and _tuned.settings().lines == ["{}\n"]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    _torch._linear_cuda(x[:3], w.values, None, w.key)
    assert len(Gpu.tuned) == 2, "nothing is measured while a graph is captured"


def test_a_known_launch_costs_few_calls(monkeypatch) -> None:
    """What a call does on the host: looks for its product, asks where the operands lie, makes the result, launches."""
    w, x, bias = matrix(64, 48, (16, 8)), torch.randn(24, 48, dtype=torch.bfloat16), torch.randn(64)
    monkeypatch.setattr(Ready, "launch", lambda *places: None)
    for added in (None, bias):
        _torch._linear_cuda(x, w.values, added, w.key)
        calls: list[str] = []

        def count(frame, event, argument, calls=calls) -> None:
            if event in ("call", "c_call"):
                calls.append(getattr(argument, "__name__", frame.f_code.co_name))

        sys.setprofile(count)
        try:
            out = _launch.direct(x, w.values, added, w.key, False, "none")
        finally:
            sys.setprofile(None)
        assert out is not None and len(calls) <= 22, calls
