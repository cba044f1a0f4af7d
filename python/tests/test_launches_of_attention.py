"""Launches of attention and of patterns on devices, seen without a GPU: they are computed on the CPU from their addresses."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import test_launches as fakes  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib import (  # noqa: E402
    _attention_gradient,
    _attention_known,
    _attention_launch,
    _attention_torch,
    _gpu,
    _kernel_launch,
    _kernels,
    _launch,
    _native,
    _torch,
)
from bsr_gemm._lib._device_masks import DeviceMask  # noqa: E402
from bsr_gemm._lib._device_patterns import DevicePattern  # noqa: E402
from bsr_gemm._lib._score import score_of  # noqa: E402

CLOSURE = "|| if i >= j { s * scale } else { -inf }"
H200 = _native.card("NVIDIA H200")
BIASED = "|bias: Cols<f32>| s * scale + bias"
#: A score whose numbers and vectors have gradients.
WITH_GRADIENTS = "|x: f32, a: Rows<f32>, b: Cols<f32>, c: Heads<f32>| s * scale + x * a * b - c * abs(i - j)"


def written(spec):
    """The score of a spec."""
    return re.search(r'score = "(.*)"', spec).group(1) if "score = " in spec else None


def sizes_of(length, per, heads):
    """Those of a vector of a score: problems x heads x elements."""
    assert per in ("all", "head")
    return (1, heads, length // heads) if per == "head" else (1, 1, length)


class LoadedAttention:
    """A kernel of attention: its plan is the compiler's."""

    def __init__(self, kernel) -> None:
        self.kernel = kernel

    def work(self, mask, q, v):
        return mask, q, v

    def listed(self, view, q, v):
        return view, q, v


class MaskView:
    """A mask on a device as kernels see it: what is in its tensors when they run."""

    def __init__(self, mask) -> None:
        self.mask = mask

    def now(self):
        derivation = self.mask._derivation
        assert derivation is None or derivation.is_current, "bytes of lists are made ahead of a launch"
        return self.mask.to_mask()._native


class ReadyAttention:
    """An attention that only lacks its addresses."""

    launches = 0

    def __init__(self, loaded, work, tensors, scale, numbers, vectors) -> None:
        self.spec = loaded.kernel.spec
        self.mask, q, v = work
        self.tensors, self.scale, self.numbers, self.vectors = tensors, scale, numbers, vectors
        sizes = [list(sizes) for sizes, _ in tensors]
        assert sizes == [q, [*v[:3], q[3]], v, [*q[:3], v[3]]]

    def launch(self, q, k, v, o, sums, stream, *vectors) -> None:
        type(self).launches += 1
        assert stream == 7
        kind = "bf16" if "dtype = bf16" in self.spec else "f16"
        score = written(self.spec)
        described = []
        for address, (sizes, strides) in zip((q, k, v, o), self.tensors):
            assert address % 16 == 0 and all(stride > 0 and stride % 8 == 0 for stride in strides)
            described.append((address, kind, list(sizes), [*strides, 1]))
        (batch, heads, queries, _), _ = self.tensors[0]
        lies = (sums, "f32", [batch, heads, queries, 1], [heads * queries, queries, 1, 1]) if sums else None
        sinks = None
        if "sinks = on" in self.spec:
            *vectors, at = vectors
            sinks = list((ctypes.c_float * heads).from_address(at))
        assert len(vectors) == len(self.vectors)
        of_score = []
        for address, (element, length, per) in zip(vectors, self.vectors):
            assert address % 16 == 0
            sizes = sizes_of(length, per, heads)
            of_score.append((address, element, list(sizes), [length, length // sizes[1], 1]))
        mask = self.mask.now() if isinstance(self.mask, MaskView) else self.mask
        _native.attend(mask, described, self.scale, score, self.numbers, of_score, lies, sinks)


class LoadedGradient(LoadedAttention):
    """The kernels of a gradient, where the compiler plans them."""

    def __init__(self, dq, dkv) -> None:
        assert "op = attention_dq" in dq.spec and "op = attention_dkv" in dkv.spec
        super().__init__(dq)
        self.score_sums = [[], []]
        for at, kernel in enumerate((dq, dkv)):
            if "score_gradients = on" in kernel.spec:
                parameters = enumerate(score_of(written(kernel.spec)).parameters)
                self.score_sums[at] = [number for number, (_, kind, _) in parameters if (kind == "Cols") == bool(at)]


class ReadyGradient:
    """A gradient that only lacks its addresses."""

    launches = 0

    #: Elements of the workspace.
    workspace = 1600

    def __init__(self, loaded, work, tensors, scale, numbers, vectors) -> None:
        spec = loaded.kernel.spec
        self.score = written(spec)
        self.dtype = torch.bfloat16 if "dtype = bf16" in spec else torch.float16
        (self.mask, *_), self.tensors, self.scale, self.numbers = work, tensors, scale, tuple(numbers)
        self.vectors, self.score_sums = vectors, loaded.score_sums

    def tensor(self, address, sizes, strides, dtype):
        length = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        held = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
        return torch.frombuffer(held, dtype=dtype).as_strided(sizes, strides)

    def launch(self, addresses, lse, dlse, workspace, score_sums, stream, *vectors) -> None:
        type(self).launches += 1
        assert stream == 7 and workspace != 0
        tensors = []
        for address, (sizes, strides) in zip(addresses, self.tensors):
            assert address % 16 == 0 and all(stride > 0 and stride % 8 == 0 for stride in strides)
            tensors.append(self.tensor(address, sizes, [*strides, 1], self.dtype))
        q, k, v, o, do, *results = tensors
        batch, heads, queries, _ = q.shape
        layout = ((batch, heads, queries), (heads * queries, queries, 1), torch.float32)
        lse, dlse = (self.tensor(at, *layout) if at else None for at in (lse, dlse))
        mask = Mask._of(self.mask, None)
        of_score = []
        for address, (element, length, per) in zip(vectors, self.vectors, strict=True):
            assert element == "f32"
            sizes = sizes_of(length, per, heads)
            of_score.append(self.tensor(address, sizes, (length, length // sizes[1], 1), torch.float32))
        how = self.score, self.scale, self.numbers, tuple(of_score)
        found = _attention_gradient.gradients(do, dlse, q, k, v, o, lse, mask, *how)
        for to, gradient in zip(results, found):
            to.copy_(gradient)
        assert [at != 0 for at in score_sums] == [len(of) > 0 for of in self.score_sums]
        for rows, at, numbers in zip((queries, k.shape[2]), score_sums, self.score_sums):
            if at:
                shape = (batch, heads, len(numbers), rows)
                lines = self.tensor(at, shape, torch.empty(shape).stride(), torch.float32)
                for line, number in zip(lines.unbind(2), numbers):
                    line.copy_(self.sums(number, (do, dlse, q, k, v, o, lse, mask), of_score, rows))

    def sums(self, number, given, vectors, rows):
        """The gradients of a vector of which each row has an element of its own; that of a head is in its first row."""
        parameters, (batch, heads, *_) = score_of(self.score).parameters, given[2].shape
        lines = torch.zeros(batch, heads, rows)
        if parameters[number][1] != "f32":
            at = [at for at, (_, kind, _) in enumerate(parameters) if kind != "f32"].index(number)
            of_score = [vector.expand(batch, heads, -1).contiguous() for vector in vectors]
            wanted = [one == at for one in range(len(vectors))]
            how = self.score, self.scale, self.numbers
            *_, found = _attention_gradient.gradients(*given, *how, of_score, wanted)
            lines[:, :, : found.shape[2]] = found
        return lines


class Gpu(fakes.Gpu):
    """That of the products, and attention."""

    def load_gradient(self, dq, dkv):
        return LoadedGradient(dq, dkv)

    def load_attention(self, kernel):
        return LoadedAttention(kernel)

    def choose_listed(self, view, facts, n, epilogue):
        return fakes.Loaded(facts, epilogue)

    def load(self, kernel):
        (kind, _, out), (_, b, c) = kernel.dtypes, kernel.layouts
        transpose = "on" if kernel.transpose else "off"
        facts = f"dtype = {kind}, out = {out}, b_layout = {b}, c_layout = {c}, transpose = {transpose}"
        return fakes.Loaded(facts, kernel.epilogue)


class View:
    """A pattern on a device as kernels see it."""

    def __init__(self, pattern) -> None:
        self.pattern = pattern

    def sparse(self, kind):
        return self


class Ready(fakes.Ready):
    """A product whose pattern may live on the device; SDDMMs have epilogues."""

    def input(self, described, place):
        name, what, kind, *_ = described
        if what == "scalar":
            number = np.array([place], dtype=np.float64)
            self.held = [*getattr(self, "held", []), number]
            return name, (number.__array_interface__["data"][0], "f64", 1, 1, 0, 0)
        if what == "blocks":
            (bm, bk), blocks = self.pattern.block, self.pattern.nnzb
            return name, (place, kind, blocks * bm, bk, bk, 1)
        return super().input(described, place)

    def launch(self, values, first, second, stream, *places) -> None:
        listed = isinstance(self.kind, View)
        facts = self.loaded.facts
        if not listed and facts.get("op") != "sdd":
            return super().launch(values, first, second, stream, *places)
        if listed:
            pattern, order = self.kind.pattern.host()
            self.pattern = pattern._native
            (bm, bk), kind = pattern.block, facts["out"] if facts.get("op") == "sdd" else facts["dtype"]
            size = bm * bk * bsr._lib._arrays.BYTES[kind]
            stored = (ctypes.c_char * (size * self.kind.pattern.capacity)).from_address(values)
            own = bytearray(b"".join(stored[size * at : size * (at + 1)] for at in order))
            held = (ctypes.c_char * max(1, len(own))).from_buffer(own or bytearray(1))
            at = ctypes.addressof(held)
            if facts.get("op") != "sdd":
                return super().launch(at, first, second, stream, *places)
            super().launch(at, first, second, stream, *places)
            for number, to in enumerate(order):
                stored[size * to : size * (to + 1)] = own[size * number : size * (number + 1)]
            return None
        (bm, bk), blocks = self.pattern.block, self.pattern.nnzb
        type(self).launches += 1
        kind, out = facts["dtype"], (values, facts["out"], blocks * bm, bk, bk, 1)
        a, b = (fakes.strided(at, kind, shape) for at, shape in zip((first, second), self.shapes))
        given = [self.input(described, place) for described, place in zip(self.further, places)]
        epilogue = None if self.loaded.epilogue is None else (self.loaded.epilogue, given)
        return _native.multiply_sddmm(self.pattern, a, b, out, epilogue)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch, rng):
    monkeypatch.setattr(DevicePattern, "on_gpu", lambda self, index: View(self))
    monkeypatch.setattr(DeviceMask, "on_gpu", lambda self, index: MaskView(self))
    natives = {"Ready": Ready, "ReadyAttention": ReadyAttention, "ReadyGradient": ReadyGradient}
    yield from fakes.replaced(monkeypatch, Gpu, [_launch, _attention_launch, _attention_known], natives)


def heads(batch=2, count=4, key_heads=2, rows=100, columns=16, rows_first=False):
    def of(number):
        shape = (batch, rows, number, columns) if rows_first else (batch, number, rows, columns)
        made = torch.randn(shape, dtype=torch.bfloat16)
        return made.transpose(1, 2) if rows_first else made

    return of(count), of(key_heads), of(key_heads)


@pytest.mark.parametrize("wanted", ["abc", "a", "bc", "c"])
def test_sums_of_kernels_become_gradients(wanted) -> None:
    mask = Mask.full((100, 100), (64, 64)).scored()
    for _ in range(2):
        tensors = heads(columns=32)
        vectors = [torch.randn(1, 4, size).mul(0.1) for size in (100, 100, 1)]
        how = mask.key, WITH_GRADIENTS, 0.25, [0.5]
        o, lse = torch.ops.bsr_gemm.attention(*tensors, None, *how, True, vectors, None)
        given = (torch.randn_like(o), None, *tensors, o, lse, *how, vectors, [name in wanted for name in "abc"])
        found = _attention_torch._attention_gradient_cuda(*given)
        expected = torch.ops.bsr_gemm.attention_gradient(*given)
        assert len(found) == len(expected) == 3 + len(wanted)
        for our, their in zip(found[:3], expected):
            assert torch.equal(our, their)
        for our, their in zip(found[3:], expected[3:]):
            assert our.shape == their.shape
            torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
    assert ReadyGradient.launches == 2 and len(_attention_launch._ready) == 1, "the second one is known"


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("rows_first", [False, True])
def test_a_second_launch_computes_what_the_first_did(rows_first, lse) -> None:
    mask = Mask.causal((100, 100), (64, 64))
    how = (mask.key, CLOSURE, 0.25, (), lse)
    for _ in range(2):
        tensors = heads(rows_first=rows_first)
        expected = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, CLOSURE, 0.25, [], lse, None, None)
        found = _attention_torch._attention_cuda(*tensors, None, *how)
        known = _attention_launch.direct(*tensors, how)
        for other in (found, known):
            assert torch.equal(other[0], expected[0]) and other[0].stride() == expected[0].stride()
            assert torch.equal(other[1], expected[1])
    assert len(_attention_launch._ready) == 1 and ReadyAttention.launches == 4


@pytest.mark.parametrize("of", ["bytes", "lists"])
def test_masks_on_devices_are_launched(of) -> None:
    flags = torch.zeros(1, 1, 2, 2, dtype=torch.uint8)
    counts, order = torch.zeros(1, 1, 2, dtype=torch.int32), torch.tensor([[[[1, 0], [0, 1]]]], dtype=torch.int32)
    if of == "bytes":
        mask = DeviceMask.from_blocks(flags, (100, 100), (64, 64))
    else:
        lists = {"kv_num_blocks": counts, "kv_indices": order, "full_kv_num_blocks": None, "full_kv_indices": None}
        block_mask = type("BlockMask", (), {**lists, "seq_lengths": (100, 100), "BLOCK_SIZE": (64, 64)})
        mask = DeviceMask.from_block_mask(block_mask)
    how = (mask.key, CLOSURE, 0.25, (), True)
    for step in range(3):
        flags.copy_(torch.tensor([[[[0, 2 * min(step, 1)], [2 * (step // 2), 0]]]]))
        counts.copy_(torch.tensor([[[min(step, 1), step // 2]]]))
        mask.changed()
        tensors = heads()
        host = Mask.from_blocks(flags.numpy() > 0, (100, 100), (64, 64), partial=flags.numpy() > 1)
        expected = torch.ops.bsr_gemm.attention(*tensors, None, host.key, CLOSURE, 0.25, [], True, None, None)
        found = _attention_torch._attention_cuda(*tensors, None, *how)
        known = _attention_launch.direct(*tensors, how)
        for other in (found, known):
            assert torch.equal(other[0], expected[0]) and torch.equal(other[1], expected[1])
    assert len(_attention_launch._ready) == len(_attention_launch._work) == 1 and ReadyAttention.launches == 6
    _attention_launch.forget_mask(mask.key)
    assert not _attention_launch._ready and not _attention_launch._work


def test_divided_keys_are_a_kernel_of_their_own() -> None:
    mask = Mask.full((100, 100), (64, 64))
    how, tensors = (mask.key, None, 0.25, (), True), heads()
    expected = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, None, 0.25, [], True, None, "split = auto")
    for keys in (None, "split = auto", "split = 3, pdl = on"):
        found = _attention_torch._attention_cuda(*tensors, None, *how, None, keys)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(_attention_launch.direct(*tensors, how, (), keys)[0], expected[0])
    specs = [spec for _, spec in _attention_launch._loaded]
    assert [spec.partition("split = ")[2].partition(",")[0] for spec in specs] == ["", "auto", "3"]


@pytest.mark.parametrize(
    ("queries", "per", "score", "keys"),
    [
        (1, "all", None, "pack_heads = 2, split = auto"),
        (16, "problem", CLOSURE, "pack_heads = 2, split = auto"),
        (5, "head", None, "split = auto"),
        (5, "all", BIASED, "split = auto"),
        (17, "all", None, ""),
    ],
)
def test_few_queries_share_tiles_and_divide_keys(queries, per, score, keys) -> None:
    q, k, v = heads()
    q = q[:, :, :queries].contiguous()
    blocks = np.ones({"all": (1, 2), "problem": (2, 1, 1, 2), "head": (1, 4, 1, 2)}[per], dtype=bool)
    mask = Mask.from_blocks(blocks, (queries, 100), (64, 64))
    assert mask.per == per
    mask, vectors = (mask.scored(), [torch.randn(1, 4, 100)] if score == BIASED else []) if score else (mask, [])
    expected = torch.ops.bsr_gemm.attention(q, k, v, None, mask.key, score, 0.25, [], True, vectors, None)
    found = _attention_torch._attention_cuda(q, k, v, None, mask.key, score, 0.25, (), True, vectors)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected))
    (spec,) = [loaded.kernel.spec for loaded in _attention_launch._loaded.values()]
    assert all(key in spec for key in keys.split(", ")) and ("split" in spec, "pack_heads" in spec) == (
        "split" in keys,
        "pack_heads" in keys,
    )


def test_tensors_that_tma_cannot_address_are_copied() -> None:
    mask = Mask.full((100, 100), (64, 64))
    how = (mask.key, None, 0.25, (), True)
    packed = torch.randn(2, 100, 3, 4, 16, dtype=torch.bfloat16).unbind(2)
    cases = {
        "where they lie": ([x.transpose(1, 2) for x in packed], True),
        "an odd address": ([torch.randn(1, 2, 100, 24, dtype=torch.bfloat16)[..., 1:17] for _ in range(3)], False),
        "odd lines": ([torch.randn(1, 2, 100, 20, dtype=torch.bfloat16)[..., :16] for _ in range(3)], False),
        "repeated heads": (
            [torch.randn(1, 1, 100, 16, dtype=torch.bfloat16).expand(1, 2, 100, 16) for _ in range(3)],
            False,
        ),
        "columns first": ([torch.randn(1, 2, 16, 100, dtype=torch.bfloat16).mT for _ in range(3)], False),
        "one head": (
            [
                torch.randn(1, 1, 100, 16, dtype=torch.bfloat16).as_strided((1, 1, 100, 16), (1, 3, 16, 1))
                for _ in range(3)
            ],
            True,
        ),
    }
    for name, (tensors, is_kept) in cases.items():
        _attention_launch._ready.clear()
        expected = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, None, 0.25, [], True, None, None)
        found = _attention_torch._attention_cuda(*tensors, None, *how)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1]), name
        assert bool(_attention_launch._ready) == is_kept, name


def test_an_attention_of_another_type_is_refused() -> None:
    tensors = [x.float() for x in heads()]
    mask = Mask.full((100, 100), (64, 64))
    with pytest.raises(bsr.Error, match="f16 and bf16, not f32"):
        _attention_torch._attention_cuda(*tensors, None, mask.key, None, 0.25, (), False)
    with pytest.raises(bsr.KernelError, match="bn"):
        narrow = heads(columns=24)
        _attention_torch._attention_cuda(*narrow, None, mask.key, None, 0.25, (), False)


def test_vectors_of_scores_are_launched() -> None:
    mask = Mask.full((100, 100), (64, 64)).scored()
    how = (mask.key, BIASED, 0.25, (), True)
    for _ in range(2):
        tensors, bias = heads(), torch.randn(1, 4, 100)
        expected = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, BIASED, 0.25, [], True, [bias], None)
        found = _attention_torch._attention_cuda(*tensors, None, *how, [bias])
        known = _attention_launch.direct(*tensors, how, [bias])
        assert torch.equal(found[0], expected[0]) and torch.equal(known[0], expected[0])
        assert torch.equal(found[1], expected[1])


def test_sinks_are_launched_behind_the_vectors() -> None:
    mask = Mask.full((100, 100), (64, 64)).scored()
    how = (mask.key, BIASED, 0.25, (), True)
    for _ in range(2):
        tensors, bias, sinks = heads(), torch.randn(1, 4, 100), torch.randn(4)
        expected = torch.ops.bsr_gemm.attention(*tensors, sinks, mask.key, BIASED, 0.25, [], True, [bias], None)
        found = _attention_torch._attention_cuda(*tensors, sinks, *how, [bias])
        known = _attention_launch.direct(*tensors, how, [bias, sinks])
        assert all(torch.equal(of_sinks[0], expected[0]) for of_sinks in (found, known))
        assert torch.equal(found[1], expected[1])
    without = _attention_torch._attention_cuda(*tensors, None, *how, [bias])
    assert len(_attention_launch._loaded) == 2 and not torch.equal(without[0], found[0])


SCORES = [
    None,
    CLOSURE,
    "|| if i >= j { 2.0 * tanh(s * scale / 2.0) } else { -inf }",
    "|slope: f32| if i >= j { s * scale - slope * (i - j) } else { -inf }",
]


def saved(tensors, mask, score, numbers=(), scale=0.25):
    """What a gradient is computed from: those of O and LSE, the tensors, O, LSE, the key of the mask, and how."""
    o, lse = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, score, scale, list(numbers), True, None, None)
    return [torch.randn_like(o), torch.randn_like(lse), *tensors, o, lse, mask.key, score, scale, list(numbers)]


@pytest.mark.parametrize("rows_first", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_kernels_of_gradients_are_launched(score, rows_first) -> None:
    mask = Mask.causal((100, 100), (64, 64)) if score else Mask.strided((100, 100), (64, 64), local=0, stride=2)
    mask, numbers = (mask.scored() if score in SCORES[2:] else mask), [0.125] if score == SCORES[3] else []
    for with_lse in (True, False, True):
        given = saved(heads(columns=32, rows_first=rows_first), mask, score, numbers)
        given[1] = given[1] if with_lse else None
        expected = torch.ops.bsr_gemm.attention_gradient(*given)
        do, dlse, q, k, v, o, lse, *how = given
        known = _attention_launch.direct_gradient((q, k, v, o, do), lse, dlse, (*how[:3], tuple(numbers)))
        assert (known is None) == (len(_attention_launch._ready) == 0)
        for found in (_attention_torch._attention_gradient_cuda(*given), known or ()):
            for gradient, other, of in zip(found, expected, (q, k, v)):
                assert torch.equal(gradient, other)
                assert gradient.stride() == other.stride() == of.stride()
    assert ReadyGradient.launches == 5 and Ready.launches == 0, "two of them are known"
    assert len(_attention_launch._ready) == len(_attention_launch._work) == 1
    _attention_launch.forget_mask(mask.key)
    assert not _attention_launch._ready and not _attention_launch._work


def test_kernels_of_gradients_read_the_vectors_of_scores() -> None:
    mask = Mask.full((100, 100), (64, 64)).scored()
    for _ in range(2):
        tensors, bias = heads(columns=32), torch.randn(1, 4, 100)
        o, lse = torch.ops.bsr_gemm.attention(*tensors, None, mask.key, BIASED, 0.25, [], True, [bias], None)
        given = (torch.randn_like(o), None, *tensors, o, lse, mask.key, BIASED, 0.25, [], [bias])
        expected = torch.ops.bsr_gemm.attention_gradient(*given)
        for ours, theirs in zip(_attention_torch._attention_gradient_cuda(*given), expected):
            assert torch.equal(ours, theirs)
    assert ReadyGradient.launches == 2 and len(_attention_launch._ready) == 1, "the second one is known"


def test_gradients_of_tensors_that_tma_cannot_address() -> None:
    mask = Mask.full((100, 100), (64, 64))

    def columns_first():
        return torch.randn(1, 2, 32, 100, dtype=torch.bfloat16).mT

    def odd_lines():
        return torch.randn(1, 2, 100, 36, dtype=torch.bfloat16)[..., :32]

    packed = [x.transpose(1, 2) for x in torch.randn(1, 100, 3, 2, 32, dtype=torch.bfloat16).unbind(2)]
    cases = {
        "where they lie": (packed, True),
        "odd lines": ([odd_lines() for _ in range(3)], False),
        "columns first": ([columns_first() for _ in range(3)], False),
    }
    for name, (tensors, is_kept) in cases.items():
        for is_expanded in (False, True):
            _attention_launch._ready.clear()
            given = saved(tensors, mask, None)
            given[0] = torch.ones(1, 1, 1, 32, dtype=torch.bfloat16).expand(1, 2, 100, 32) if is_expanded else given[0]
            expected = torch.ops.bsr_gemm.attention_gradient(*given)
            for ours, theirs in zip(_attention_torch._attention_gradient_cuda(*given), expected):
                assert torch.equal(ours, theirs) and ours.stride() == theirs.stride(), name
            assert bool(_attention_launch._ready) == (is_kept and not is_expanded), name
    assert ReadyGradient.launches == 6


def test_gradients_without_kernels_are_products() -> None:
    mask = Mask.causal((100, 100), (64, 64))
    cases = [
        (heads(columns=24), mask, None),
        (heads(columns=32), mask.scored(), "|| gelu_erf(s * scale)"),
        (heads(columns=32), Mask.causal((100, 100), (16, 16)), CLOSURE),
        ([x.float() for x in heads(columns=32)], mask, CLOSURE),
        (heads(columns=32), Mask.from_blocks(np.zeros((2, 2), dtype=bool), (100, 100), (64, 64)), None),
    ]
    for tensors, of, score in cases:
        o, lse = torch.ops.bsr_gemm.attention(*tensors, None, of.key, score, 0.25, [], True, [], None)
        given = (torch.randn_like(o), None, *tensors, o, lse, of.key, score, 0.25, [], [])
        expected = torch.ops.bsr_gemm.attention_gradient(*given)
        for ours, theirs in zip(_attention_torch._attention_gradient_cuda(*given), expected):
            assert torch.equal(ours, theirs)
    assert ReadyGradient.launches == 0


@pytest.mark.parametrize("score", SCORES[:3])
def test_gradients_launch_what_the_cpu_computes(score, monkeypatch) -> None:
    mask = Mask.causal((100, 100), (64, 64)) if score else Mask.strided((100, 100), (64, 64), local=0, stride=2)
    mask = mask.scored() if score == SCORES[2] else mask
    q, k, v = heads()
    o, lse = torch.ops.bsr_gemm.attention(q, k, v, None, mask.key, score, 0.25, [], True, None, None)
    inputs = (torch.randn_like(o), torch.randn_like(lse), q, k, v, o, lse, mask, score, 0.25, ())
    expected = _attention_gradient.gradients(*inputs)

    def launched(a, b, pattern, epilogue, given, dtype=None):
        out = a.new_empty((pattern.nnzb, *pattern.block), dtype=dtype or a.dtype)
        return _launch.sddmm(a, b, out, pattern, epilogue, given)

    monkeypatch.setattr(_attention_gradient, "sddmm", launched)
    found = _attention_gradient.gradients(*inputs)
    assert Ready.launches == 2 + (score == SCORES[2])
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs)


def test_epilogues_of_gradients_have_kernels() -> None:
    """Of every block that attention takes: a kernel that samples with the epilogue can be planned."""
    for bm, bk in [(64, 64), (64, 128), (128, 128)]:
        pattern = bsr.Pattern.from_mask(np.ones((4, 4)), (4 * bm, 4 * bk), (bm, bk))
        facts = f"bm = {bm}, bn = 64, bk = {bk}, op = sdd, dtype = bf16, out = bf16, a_layout = row, b_layout = col"
        for epilogue in (_attention_gradient.PROBABILITIES, _attention_gradient._score_gradient("bf16")):
            assert epilogue.split("|")[2].strip() in _native.explain(pattern._native, facts, 128, H200, "", epilogue)
        wide = facts.replace("out = bf16", "out = f32")
        assert "out = f32" in _native.explain(pattern._native, wide, 64, H200, "", "|| acc")


def test_kernels_of_the_program_are_launched() -> None:
    epilogue = "|bias: Rows<f32>, alpha: f32, res: Dense<bf16>| alpha * acc + bias + res"
    kernel = bsr.Kernel(f'bm = 64, bn = 64, bk = 64, dtype = bf16, c_layout = col, epilogue = "{epilogue}"')
    w, x, bias = fakes.matrix(128, 192, (64, 64)), torch.randn(192, 37, dtype=torch.bfloat16), torch.randn(128)
    given = {"bias": bias, "alpha": torch.tensor(0.5), "res": torch.randn(128, 37, dtype=torch.bfloat16)}
    for _ in range(2):
        call = _kernels._Call.of(kernel, (w, x), dict(given))
        assert torch.equal(_kernel_launch.launch_kernel(kernel, call), call.on_cpu())
    assert Ready.launches == 2 and len(_gpu._ready) == 1


def test_products_of_patterns_on_devices() -> None:
    mask = np.random.default_rng(0).random((4, 5)) < 0.5
    host = bsr.Pattern.from_mask(mask, (64, 80), (16, 16))
    places = torch.zeros(host.nnzb + 2, dtype=torch.int64)
    places[: host.nnzb] = torch.tensor(host.col_idx)
    pattern = DevicePattern((64, 80), (16, 16), torch.tensor(host.row_ptr).long(), places)
    values = torch.randn(pattern.capacity, 16, 16, dtype=torch.bfloat16)
    bias = torch.randn(64)
    for changed in (False, True):
        if changed:
            places[0] = {0: 1}.get(int(places[0]), 0)
            pattern.changed()
        x, y = torch.randn(24, 80, dtype=torch.bfloat16), torch.randn(24, 64, dtype=torch.bfloat16)
        for how in ((x, values, bias, pattern.key, False, "gelu"), (y, values, None, pattern.key, True, "none")):
            expected = torch.ops.bsr_gemm.linear(*how)
            assert torch.equal(_torch._linear_cuda(*how), expected)
            assert torch.equal(_launch.direct(*how), expected)
        a, b = torch.randn(64, 32, dtype=torch.bfloat16), torch.randn(32, 80, dtype=torch.bfloat16)
        found, expected = _torch._sddmm_cuda(a, b, pattern.key), torch.ops.bsr_gemm.sddmm(a, b, pattern.key)
        assert torch.equal(found, expected) and not found[host.nnzb :].any()
    kept = len(_gpu._sparse), len(_gpu._layers)
    key = pattern.key
    _gpu.forget_pattern(key)
    assert kept == (1, 2) and not _gpu._sparse and not _gpu._layers and not _gpu._ready
    assert not any(key in of for of in _gpu._loaded)


def drawn(side: int, density: float) -> Mask:
    blocks = np.random.default_rng(1).random((512 // side, 512 // side)) < density
    return Mask.from_blocks(blocks, (512, 512), (side, side))


@pytest.mark.parametrize(
    ("mask", "keys"),
    [
        (drawn(64, 0.2), "consumers = 1"),
        (drawn(64, 0.6), "consumers = 1"),
        (drawn(64, 0.9), ""),
        (Mask.lower_triangle((512, 512), (64, 64)), ""),
        (Mask.block_window((512, 512), (64, 64), blocks=3), ""),
        (drawn(128, 0.2), ""),
    ],
)
def test_rows_of_64_with_blocks_of_their_own_are_tiles_of_one_consumer(mask, keys) -> None:
    q, k, v = (torch.randn(1, 2, 512, 64).half() for _ in range(3))
    found = _attention_torch._attention_cuda(q, k, v, None, mask.key, None, 0.125, (), True, [])
    expected = torch.ops.bsr_gemm.attention(q, k, v, None, mask.key, None, 0.125, [], True, [], None)
    assert torch.equal(found[0], expected[0])
    (spec,) = [loaded.kernel.spec for loaded in _attention_launch._loaded.values()]
    assert ("consumers" in spec) == bool(keys) and keys in spec
