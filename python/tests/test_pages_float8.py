"""Attention of float8 whose keys and values are in pages: beside that of what is stored, on the CPU, on a GPU, and launched without one."""

from __future__ import annotations

import ctypes

import pytest

torch = pytest.importorskip("torch")

import test_launches as fakes  # noqa: E402
from test_attention_float8 import LOGARITHM, ROUNDED  # noqa: E402
from test_known_float8 import seen  # noqa: E402
from test_launches_of_attention import Gpu  # noqa: E402
from test_pages import DEVICES, LENGTHS, Cache  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import PageTable, ValuePages, paged_attention  # noqa: E402
from bsr_gemm._lib import _attention_float8, _attention_launch, _float8_values, _launch, _pages  # noqa: E402

KIND = torch.float8_e4m3fn


class Narrow:
    """A cache in float8 with factors, and the same problems in float64."""

    def __init__(self, lengths, page, device="cpu", *, heads=2, columns=64, count=1, per="head") -> None:
        wide = Cache(lengths, page, device, heads=heads, columns=columns, dtype=torch.float32)
        generator = torch.Generator().manual_seed(count)
        shape = len(lengths), 4 * heads, count, columns
        q = torch.randn(shape, generator=generator).to(device)
        sizes = {"tensor": (), "head": (heads,), "both": (len(lengths), heads)}[per]
        self.scales = [torch.rand(sizes, generator=generator).to(device) + 0.5 for _ in range(3)]
        self.q, self.k = ((x / 2).nan_to_num(0.0).to(KIND) for x in (q, wide.k))
        self.rows = (wide.v / 2).nan_to_num(0.0).to(KIND)
        self.v, self.table = ValuePages(self.rows), wide.table
        each = [scale.expand(len(lengths), heads).double() for scale in self.scales]
        wide.keys = [(x / 2).float().to(KIND).double() * of[:, None, None] for x, of in zip(wide.keys, each[1])]
        wide.values = [(x / 2).float().to(KIND).double() * of[:, None, None] for x, of in zip(wide.values, each[2])]
        of_q = self.q.double().unflatten(1, (heads, 4)) * each[0][:, :, None, None, None]
        self.expected = lambda **how: wide.expected(of_q.flatten(1, 2), **how)

    def attend(self, **how):
        return paged_attention(self.q, self.k, self.v, self.table, scales=self.scales, lse=True, **how)


def compare(found, expected, device) -> None:
    (out, lse), (right, sums) = found, expected
    assert out.dtype == torch.bfloat16 and (out.double() - right).norm() <= ROUNDED[device] * right.norm()
    finite = sums.isfinite()
    assert torch.equal(lse.isneginf(), ~finite) and (lse[finite] - sums[finite]).abs().max() < 4 * LOGARITHM[device]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("page", [32, 64, 256])
@pytest.mark.parametrize("per", ["tensor", "head", "both"])
@pytest.mark.parametrize(("count", "causal"), [(1, True), (5, True), (70, False)])
def test_values(device, page, per, count, causal) -> None:
    cache = Narrow(LENGTHS, page, device, count=count, per=per)
    for pdl in (False, True):
        found = cache.attend(causal=causal, pdl=pdl)
        compare(found, cache.expected(causal=causal), device)
    # The third launch of these shapes is a cached one.
    again = cache.attend(causal=causal)
    assert torch.equal(again[0], found[0]) and torch.equal(again[1], found[1])


@pytest.mark.parametrize("device", DEVICES)
def test_new_keys_layouts_and_sinks(device) -> None:
    cache = Narrow(LENGTHS, 64, device)
    out, lse = cache.attend(sinks=torch.linspace(-1, 3, 8, device=device))
    compare((out, lse), cache.expected(sinks=torch.linspace(-1, 3, 8, device=device)), device)
    # The same cache, filled by slots in any order, some of which are none.
    pages, heads, page, columns = cache.v.shape
    values = ValuePages.zeros(pages, heads, page, columns, device)
    slots = torch.randperm(pages * page, generator=torch.Generator().manual_seed(1)).int()
    rows = cache.rows.transpose(1, 2).flatten(0, 1)
    for part in slots.split(1000):
        given = torch.cat((part, torch.tensor([-1, -700], dtype=torch.int32))).to(device)
        values.write(rows.view(torch.uint8)[given.long()].view(KIND), given)
    assert torch.equal(values.to_rows().view(torch.uint8), cache.rows.view(torch.uint8))
    k = cache.k.view(torch.uint8).transpose(1, 2).contiguous().view(KIND)
    given = torch.empty_like(out).transpose(1, 2)
    q = cache.q.view(torch.uint8).transpose(1, 2).contiguous().view(KIND)
    how = {"layout": "bshd", "kv_layout": "NHD", "scales": cache.scales, "out": given}
    found = paged_attention(q, k, values, cache.table, sinks=torch.linspace(-1, 3, 8, device=device), **how)
    assert found.data_ptr() == given.data_ptr() and torch.equal(given.transpose(1, 2), out)


@pytest.mark.gpu
def test_a_graph_writes_and_attends() -> None:
    cache = Narrow([63, 1, 130], 64, "cuda")
    slot = torch.tensor([-1, -1, -1], device="cuda")
    value = torch.zeros(3, 2, 64, device="cuda").to(KIND)

    def step():
        cache.v.write(value, slot)
        return cache.attend()

    before = step()[0].clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = step()
    graph.replay()
    assert torch.equal(out, before)
    # The first key of the second problem: O is its value.
    slot.copy_(torch.tensor([-1, int(cache.table.table[1, 0]) * 64, -1]))
    value.copy_(torch.ones(3, 2, 64, device="cuda").to(KIND))
    graph.replay()
    scale = cache.scales[2][:, None].expand(2, 4).reshape(8, 1, 1)
    assert torch.allclose(out[1].float(), scale.expand(8, 1, 64), rtol=1e-2) and torch.equal(out[2], before[2])


class View:
    """A page table as kernels see it: what is at its addresses when they run."""

    def __init__(self, gpu, shape, table, lengths) -> None:
        (self.batch, self.width, self.pages, self.page), self.places = shape, (table, lengths)

    def now(self) -> PageTable:
        table, lengths = (
            torch.tensor((ctypes.c_int32 * count).from_address(at)[:], dtype=torch.int32)
            for at, count in zip(self.places, (self.batch * self.width, self.batch))
        )
        return PageTable(table.reshape(self.batch, self.width), lengths)


class ReadyAttention:
    """An attention in pages that only lacks its addresses; V is by columns."""

    launches = 0
    specs: list[str] = []

    def __init__(self, loaded, work, tensors, scale, numbers, vectors, counts=None) -> None:
        (self.view, q, v), self.spec = work, loaded.kernel.spec
        self.tensors, self.scale, self.counts = tensors, scale, counts
        sizes = [list(sizes) for sizes, _ in tensors]
        assert sizes == [q, [*v[:3], q[3]], [v[0], v[1], v[3], v[2]], [*q[:3], v[3]]] and not (numbers or vectors)
        assert (v[0], v[2]) == (self.view.pages, self.view.page) and f"page = {v[2]}" in self.spec
        assert "dtype = e4m3" in self.spec and ("scale = tensor" in self.spec) == (counts is not None)
        type(self).specs.append(self.spec)

    def launch(self, q, k, v, o, sums, stream, *factors) -> None:
        type(self).launches += 1
        kinds = [KIND] * 3 + [torch.bfloat16]
        q, k, v, out = (
            seen(at, kind, sizes, [*strides, 1])
            for at, kind, (sizes, strides) in zip((q, k, v, o), kinds, self.tensors)
        )
        assert stream == 7 and all(stride % 16 == 0 for _, strides in self.tensors for stride in strides)
        (problems, *_), heads = q.shape, k.shape[1]
        scales = None
        if self.counts is not None:
            shape = {1: (), heads: (heads,)}.get(self.counts[0], (problems, heads))
            scales = [seen(at, torch.float32, [self.counts[0]], [1]).reshape(shape) for at in factors]
        rows = ValuePages(_float8_values.by_row(v, k.shape[2]))
        found, lse = paged_on_the_host(q, k, rows, self.view.now(), scale=self.scale, scales=scales, lse=True)
        out.copy_(found)
        seen(sums, torch.float32, list(lse.shape), list(lse.stride())).copy_(lse)


def paged_on_the_host(*args, **how):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_attention_float8, "is_on_gpu", lambda q: False)
        return paged_attention(*args, **how)


def test_launches_read_what_the_cache_stores(monkeypatch, rng) -> None:
    monkeypatch.setattr(_attention_float8, "is_on_gpu", lambda q: True)
    loaded = Gpu.load_attention

    def load(gpu, kernel):
        made = loaded(gpu, kernel)
        made.paged = lambda view, q, v: (view, q, v)
        return made

    monkeypatch.setattr(Gpu, "load_attention", load)
    monkeypatch.setattr(_pages, "_stream", lambda index: 7)
    natives = {"ReadyAttention": ReadyAttention, "DevicePages": View}
    monkeypatch.setattr(View, "launches", 0, raising=False)
    replaced = fakes.replaced(monkeypatch, Gpu, [_launch, _attention_launch], natives)
    next(replaced)
    ReadyAttention.specs = []
    for per, count, words in (
        (
            "head",
            1,
            "bm = 64, dtype = e4m3, scale = tensor, split = auto, pack_heads = 4",
        ),
        ("both", 5, "split = auto, pdl = on, pack_heads = 4, page = 64"),
        ("tensor", 70, "bm = 128, scale = tensor, split = auto, page = 64"),
    ):
        cache = Narrow(LENGTHS, 64, count=count, per=per)
        for number in range(2):
            out, lse = cache.attend(pdl=count == 5)
            expected = paged_on_the_host(cache.q, cache.k, cache.v, cache.table, scales=cache.scales, lse=True)
            assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
            assert set(words.split(", ")) <= set(ReadyAttention.specs[-1].split(", "))
            cache.table.lengths[0] = 299 - number
    assert ReadyAttention.launches == 6 and len(ReadyAttention.specs) == 3, "one is made of each, and kept"


def test_what_is_refused() -> None:
    cache = Narrow(LENGTHS, 64)
    q, k, v, table = cache.q, cache.k, cache.v, cache.table
    wide = Cache(LENGTHS, 64, dtype=torch.float32)
    blocks = [torch.ones(5, 2, 3)] * 3
    for tensors, how, words in [
        ((q, k, cache.rows), {}, r"v is a tensor of torch.float8_e4m3fn\n.*\n  help: `ValuePages\(v\)`"),
        ((q.bfloat16(), k, v), {}, r"q is of torch.bfloat16, .*\n  help: all of torch.float8_e4m3fn"),
        ((q, k, v), {"scales": blocks}, "scales of blocks"),
        ((q, k, v), {"scales": (1.0, torch.ones(3), 1.0)}, "the scale of k is"),
        ((q, k, v), {"out": torch.empty(5, 8, 1, 64)}, "out is .* of torch.float32"),
        (
            (q.float(), wide.k, wide.v),
            {"scales": (1.0, 1.0, 1.0)},
            "scales are given, and q, k and v are of torch.float32",
        ),
    ]:
        with pytest.raises(bsr.Error, match=words):
            paged_attention(*tensors, table, **how)
    with pytest.raises(bsr.Error, match="pages of 24 keys"):
        ValuePages.zeros(2, 2, 24, 64, "cpu")
    with pytest.raises(bsr.Error, match="float8_e4m3fn"):
        ValuePages(wide.v)
    with pytest.raises(bsr.Error, match="kv_layout"):
        ValuePages(cache.rows, "hnd")
    with pytest.raises(bsr.Error, match=r"values are \[3, 2, 32\] .*\n  help: keys x 2 heads x 64 columns"):
        v.write(torch.zeros(3, 2, 32).to(KIND), torch.zeros(3, dtype=torch.int32))
    with pytest.raises(bsr.Error, match="pdl = 1"):
        cache.attend(pdl=1)
    assert repr(v).startswith("ValuePages(") and v.dtype is KIND and v.device == cache.k.device
