"""Attention whose keys and values are in pages: against a softmax of each problem in f64, on the CPU and on a GPU."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import PageTable, paged_attention  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
LENGTHS = [300, 1, 0, 77, 128]


class Cache:
    """K and V of problems of several lengths, in pages whose order is not theirs; what has no key is not a number."""

    def __init__(self, lengths, page, device="cpu", *, heads=2, columns=64, spare=1, dtype=None) -> None:
        generator = torch.Generator().manual_seed(page)
        self.dtype = dtype or (torch.float64 if device == "cpu" else torch.bfloat16)
        used = [-(-length // page) for length in lengths]
        pages = sum(used) + 3
        self.k, self.v = (torch.full((pages, heads, page, columns), math.nan, dtype=torch.float64) for _ in range(2))
        table = torch.full((len(lengths), max(used) + spare), -5, dtype=torch.int32)
        order, self.keys, self.values = torch.randperm(pages, generator=generator).tolist(), [], []
        for number, length in enumerate(lengths):
            own = [torch.randn(heads, length, columns, dtype=torch.float64, generator=generator) for _ in range(2)]
            own = [x.to(self.dtype).double() for x in own]
            for entry in range(used[number]):
                table[number, entry] = at = order.pop()
                for cache, x in zip((self.k, self.v), own):
                    part = x[:, entry * page : (entry + 1) * page]
                    cache[at, :, : part.shape[1]] = part
            self.keys.append(own[0].to(device))
            self.values.append(own[1].to(device))
        self.k, self.v = (x.to(device, self.dtype) for x in (self.k, self.v))
        self.table = PageTable(table.to(device), torch.tensor(lengths, dtype=torch.int32).to(device))

    def expected(self, q, *, causal=False, softcap=None, sinks=None):
        """O and LSE of each problem."""
        outs, sums = [], []
        for number, (k, v) in enumerate(zip(self.keys, self.values)):
            group = q.shape[1] // k.shape[0]
            k, v = (x.repeat_interleave(group, 0) for x in (k, v))
            scores = q[number].double() @ k.mT / math.sqrt(q.shape[3])
            scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
            if causal:
                queries, keys = scores.shape[1:]
                kept = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
                scores = scores.masked_fill(~kept, -math.inf)
            least = scores.new_full((8, 1, 1), -math.inf) if sinks is None else sinks.double()[:, None, None]
            scores = torch.cat((scores, least.expand(*scores.shape[:2], 1)), -1)
            nothing = scores.isneginf().all(-1, keepdim=True)
            p = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
            outs.append(p[..., :-1] @ v)
            sums.append(scores.logsumexp(-1))
        return torch.stack(outs), torch.stack(sums)


def queries(cache, count, heads=8, columns=64):
    generator = torch.Generator().manual_seed(count)
    shape = (len(cache.keys), heads, count, columns)
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(cache.k.device, cache.dtype)


def compare(found, expected) -> None:
    (out, lse), (right, sums) = found, expected
    bound = 1e-12 if out.dtype == torch.float64 else 5e-3
    assert (out.double() - right).norm() <= bound * right.norm()
    finite = sums.isfinite()
    assert torch.equal(lse.isneginf(), ~finite) and (lse[finite] - sums[finite]).abs().max() < 1e-4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("page", [16, 64, 256])
@pytest.mark.parametrize(("count", "causal"), [(1, True), (5, False), (5, True), (70, True)])
def test_values(device, page, count, causal) -> None:
    cache = Cache(LENGTHS, page, device)
    q = queries(cache, count)
    for _ in range(2):
        found = paged_attention(q, cache.k, cache.v, cache.table, causal=causal, lse=True)
        compare(found, cache.expected(q, causal=causal))
        # The next launch of these shapes is a cached one.
        q = q.flip(0)


@pytest.mark.parametrize("device", DEVICES)
def test_layouts_sinks_soft_caps_and_given_results(device) -> None:
    cache = Cache(LENGTHS, 32, device)
    q, sinks = queries(cache, 1), torch.linspace(-1, 3, 8, device=device)
    expected = cache.expected(q, softcap=2.0, sinks=sinks)
    how = {"softcap": 2.0, "sinks": sinks}
    out, lse = paged_attention(q, cache.k, cache.v, cache.table, lse=True, **how)
    compare((out, lse), expected)
    k, v = (x.transpose(1, 2).contiguous() for x in (cache.k, cache.v))
    given, sums = torch.empty_like(q).transpose(1, 2), torch.empty_like(lse)
    found = paged_attention(
        q.transpose(1, 2), k, v, cache.table, layout="bshd", kv_layout="NHD", out=given, lse=sums, lse_base=2, **how
    )
    assert found[0].data_ptr() == given.data_ptr() and torch.equal(given.transpose(1, 2), out)
    finite = lse.isfinite()
    assert torch.allclose(sums[finite], lse[finite] / math.log(2))


@pytest.mark.parametrize("device", DEVICES)
def test_lengths_that_change(device) -> None:
    cache = Cache([100, 40, 200], 16, device)
    q = queries(cache, 1)
    compare(paged_attention(q, cache.k, cache.v, cache.table, lse=True), cache.expected(q))
    shorter = [64, 0, 131]
    cache.table.lengths.copy_(torch.tensor(shorter))
    cache.table.changed()
    cache.keys = [x[:, :length] for x, length in zip(cache.keys, shorter)]
    cache.values = [x[:, :length] for x, length in zip(cache.values, shorter)]
    compare(paged_attention(q, cache.k, cache.v, cache.table, lse=True), cache.expected(q))
    cache.table.check()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("entry", "length", "words"),
    [(9999, None, "problem 1 .* page 9999, and the pages are 0 to"), (None, -3, "problem 1 .*has -3 keys")],
)
def test_wrong_tables(device, entry, length, words) -> None:
    cache = Cache([100, 40, 200], 16, device)
    q = queries(cache, 1)
    if entry is not None:
        cache.table.table[1, 2] = entry
    if length is not None:
        cache.table.lengths[1] = length
    if device == "cpu":
        with pytest.raises(bsr.Error, match=words):
            paged_attention(q, cache.k, cache.v, cache.table)
        return
    out, lse = paged_attention(q, cache.k, cache.v, cache.table, lse=True)
    assert not out[1].any() and lse[1].isneginf().all()
    cache.keys[1], cache.values[1] = (x[1][:, :0] for x in (cache.keys, cache.values))
    compare((out, lse), cache.expected(q))
    with pytest.raises(bsr.Error, match=words):
        cache.table.check()
    cache.table.check()


@pytest.mark.gpu
def test_a_graph_serves_every_table() -> None:
    caches = [
        Cache(lengths, 64, "cuda", spare=8 - max(-(-length // 64) for length in lengths))
        for lengths in ([500, 3, 129], [0, 512, 64], [1, 1, 1])
    ]
    pages = max(len(cache.k) for cache in caches)
    k, v = (torch.zeros(pages, 2, 64, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    q = queries(caches[0], 1)
    table = PageTable(caches[0].table.table.clone(), caches[0].table.lengths.clone())
    out, lse = torch.empty_like(q), torch.empty(*q.shape[:3], device="cuda")
    paged_attention(q, k, v, table, out=out, lse=lse)
    table.changed()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        paged_attention(q, k, v, table, out=out, lse=lse)
        # Another layer: the same lists.
        second = paged_attention(q, k, v, table)
    for cache in caches:
        k[: len(cache.k)].copy_(cache.k)
        v[: len(cache.v)].copy_(cache.v)
        table.table.copy_(cache.table.table)
        table.lengths.copy_(cache.table.lengths)
        graph.replay()
        compare((out, lse), cache.expected(q))
        assert torch.equal(second, out)
    table.check()


def test_what_is_no_table_is_refused() -> None:
    cache = Cache([20, 30], 16)
    q = queries(cache, 1)
    table, lengths = cache.table.table, cache.table.lengths
    for arrays, words in [
        ((table.long(), lengths), "table is .* of torch.int64"),
        ((table, lengths[:1]), "there are 1 lengths"),
        ((table.T, lengths), "table is"),
        ((table[:, :0], lengths), r"the table is \[2, 0\]"),
    ]:
        with pytest.raises(bsr.Error, match=words):
            PageTable(*arrays)
    for tensors, words in [
        ((q[:1], cache.k, cache.v), "of 2 problems"),
        ((q[:, :3], cache.k, cache.v), "a number of heads that divides"),
        ((q, cache.k, cache.v[..., :8, :]), "k and v of one shape"),
        ((q.float(), cache.k, cache.v), "q is of torch.float32"),
        ((q.clone().requires_grad_(), cache.k, cache.v), "has no gradient"),
    ]:
        with pytest.raises(bsr.Error, match=words):
            paged_attention(*tensors, cache.table)
    with pytest.raises(bsr.Error, match="pages is a Tensor"):
        paged_attention(q, cache.k, cache.v, table)
    with pytest.raises(bsr.Error, match="HND or NHD"):
        paged_attention(q, cache.k, cache.v, cache.table, kv_layout="hnd")
