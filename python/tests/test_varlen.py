"""Sequences of different lengths in one call: every sequence beside a dense attention of its own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import captured  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm._lib import _ranges, _sequences  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: Queries and keys of each sequence: within a block and across its edges, of one token, of none, more keys than queries, and fewer.
MIXED = [(70, 70), (1, 130), (0, 40), (58, 58), (30, 0), (90, 25), (3, 3), (64, 128)]
SAME = [(100, 100), (28, 28), (128, 128), (1, 1), (1, 1), (75, 75)]
DECODE = [(1, 190), (1, 3), (1, 0), (1, 257), (1, 64)]
LENGTHS = {"mixed": MIXED, "same": SAME, "decode": DECODE, "one": [(200, 200)], "none": []}
WINDOWS = [(-1, -1), (40, 0), (5, 9), (-1, 3), (0, -1)]


def starts(lengths) -> list[list[int]]:
    return [[0, *itertools.accumulate(of)] for of in ([q for q, _ in lengths], [k for _, k in lengths])]


def tensors(lengths, device, heads=(4, 2), columns=(64, 64), behind=0, dtype=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dtype = dtype or (torch.bfloat16 if device == "cuda" else torch.float64)
    queries, keys = (of[-1] + behind for of in starts(lengths))
    shapes = (queries, heads[0], columns[0]), (keys, heads[1], columns[0]), (keys, heads[1], columns[1])
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype) for shape in shapes]


def dense(q, k, v, lengths, causal=False, window=(-1, -1), softcap=None, sinks=None, scale=None):
    """O and LSE in f64, sequence by sequence, as FlashAttention defines them."""
    q, k, v = (x.double() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=torch.float64, device=q.device)
    lse = torch.full((q.shape[1], q.shape[0]), -math.inf, dtype=torch.float64, device=q.device)
    if sinks is not None:
        lse = lse.logaddexp(sinks.double()[:, None])
    before, after = window
    after = 0 if causal else after
    pieces, logs = [], []
    for (nq, nk), first_q, first_k in zip(lengths, *starts(lengths)):
        rows = [x[at : at + n].transpose(0, 1) for x, at, n in ((q, first_q, nq), (k, first_k, nk), (v, first_k, nk))]
        s = (rows[0] @ rows[1].mT) * (q.shape[2] ** -0.5 if scale is None else scale)
        s = s if softcap is None else softcap * torch.tanh(s / softcap)
        place = torch.arange(nq, device=q.device)[:, None] + nk - nq
        j = torch.arange(nk, device=q.device)[None]
        counts = torch.ones(nq, nk, dtype=torch.bool, device=q.device)
        counts = counts if before < 0 else counts & (j >= place - before)
        counts = counts if after < 0 else counts & (j <= place + after)
        s = s.masked_fill(~counts, -math.inf)
        sums = s.logsumexp(-1) if nk else torch.full(s.shape[:-1], -math.inf, dtype=s.dtype, device=s.device)
        if sinks is not None:
            sums = sums.logaddexp(sinks.double()[:, None])
        p = torch.where(counts, (s - torch.where(sums.isinf(), 0, sums)[..., None]).exp(), 0)
        pieces.append((p @ rows[2]).transpose(0, 1))
        logs.append(sums)
    end = starts(lengths)[0][-1]
    return torch.cat([*pieces, out[end:]]), torch.cat([*logs, lse[:, end:]], dim=1)


def close(found, expected, rounded: float = 2e-2) -> None:
    for ours, theirs in zip(found, expected):
        tolerance = 1e-9 if ours.dtype == torch.float64 else rounded
        torch.testing.assert_close(ours.double(), theirs, atol=tolerance, rtol=tolerance)


def of(kind: str, lengths, device: str):
    """Starts as the host has them, or on the device as every attention in a graph has them."""
    if kind == "numbers":
        return starts(lengths)
    if kind == "array":
        return [np.array(x, dtype=np.int32) for x in starts(lengths)]
    return [torch.tensor(x, dtype=torch.int32, device=device) for x in starts(lengths)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["numbers", "array", "tensor"])
@pytest.mark.parametrize("name", LENGTHS)
def test_every_sequence_is_its_own_attention(name, kind, device) -> None:
    lengths = LENGTHS[name]
    given, cu = tensors(lengths, device, behind=17), of(kind, lengths, device)
    for block in ((128, 128), (64, 64), (64, 128)):
        for causal in (False, True):
            found = bsr.attention_varlen(*given, *cu, 128, 257, causal=causal, lse=True, block=block)
            assert found[0].shape == given[0].shape and found[1].shape == (4, len(given[0]))
            close(found, dense(*given, lengths, causal))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["numbers", "tensor"])
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_soft_caps_and_sinks(window, kind, device) -> None:
    sinks = torch.tensor([0.5, -1.0, 3.0, 0.0], device=device)
    for number, lengths in enumerate((MIXED, SAME, DECODE)):
        given, cu = tensors(lengths, device, columns=(64, 32), seed=number), of(kind, lengths, device)
        further = ({}, {"softcap": 5.0}, {"sinks": sinks, "scale": 0.2})[number]
        for causal in (False, True):
            found = bsr.attention_varlen(*given, *cu, causal=causal, window=window, lse=True, **further)
            close(found, dense(*given, lengths, causal, window, **further))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["numbers", "tensor"])
@pytest.mark.parametrize("name", ["mixed", "same"])
def test_gradients(name, kind, device) -> None:
    lengths, sinks = LENGTHS[name], torch.tensor([0.5, -1.0, 3.0, 0.0], device=device)
    sinks = sinks.double() if device == "cpu" else sinks
    cu = of(kind, lengths, device)
    for causal, window, with_sinks in ((False, (-1, -1), False), (True, (-1, -1), True), (True, (30, 0), False)):
        ours, theirs = ([x.clone().requires_grad_() for x in tensors(lengths, device, behind=5)] for _ in range(2))
        of_sinks = [sinks.clone().requires_grad_() for _ in range(2)] if with_sinks else [None, None]
        found = bsr.attention_varlen(*ours, *cu, causal=causal, window=window, sinks=of_sinks[0], lse=True)
        expected = dense(*theirs, lengths, causal, window, sinks=of_sinks[1])
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(device) for x in expected]
        weights[1] = torch.where(expected[1].isinf(), 0, weights[1])
        inputs = [[*tensors_, *(x for x in (of,) if x is not None)] for tensors_, of in zip((ours, theirs), of_sinks)]
        close(
            torch.autograd.grad(found, inputs[0], [w.to(x.dtype) for w, x in zip(weights, found)]),
            [x.double() for x in torch.autograd.grad(expected, inputs[1], weights)],
            # The gradient of a sink is a sum over all queries, of which each has the rounding of O and dO.
            rounded=5e-2,
        )


@pytest.mark.parametrize("name", LENGTHS)
def test_blocks_on_the_device_are_those_of_the_host(name) -> None:
    """The ranges and the bytes of blocks that PyTorch makes, which a GPU lists, beside the mask of the host."""
    lengths = LENGTHS[name]
    queries, keys = (of[-1] + 9 for of in starts(lengths))
    cu = [torch.tensor(x) for x in starts(lengths)]
    for band in ((None, None), (None, 0), (40, 0), (5, 9), (None, 3), (0, None)):
        found = _sequences._ranges(cu, (queries, keys), band)
        for block in ((128, 128), (64, 64), (64, 128), (7, 5)):
            mask, first, end = _sequences._listed(tuple(map(tuple, starts(lengths))), (queries, keys), block, band)
            assert np.array_equal(found[0], first) and np.array_equal(found[1], end)
            flags = _ranges.flags_of(*found, keys, block)
            assert np.array_equal(flags.numpy(), mask.blocks()[0]), (band, block)


def test_no_padding_is_computed() -> None:
    """Blocks are stored where tokens of one sequence meet, and no others: far fewer pairs than with padding."""
    lengths = [(1 + at * 389 % 1000,) * 2 for at in range(40)]
    cu = tuple(map(tuple, starts(lengths)))
    total, pairs = cu[0][-1], sum(n * (n + 1) // 2 for n, _ in lengths)
    padded = len(lengths) * 1000 * 1001 // 2
    for block, most in (((64, 64), 1.35), ((128, 128), 1.7)):
        mask, *_ = _sequences._listed(cu, (total, total), block, (None, 0))
        assert pairs < mask.pairs() < most * pairs < padded


@pytest.mark.parametrize("device", DEVICES)
def test_starts_that_are_wrong_never_become_an_address(device) -> None:
    given = tensors(SAME, device)
    for cu in ([0, 500, 10, 333], [0, -5, 7, 100], [9, 9, 9, 9], [1 << 30] * 4):
        wrong = torch.tensor(cu, dtype=torch.int64, device=device)
        if device == "cuda":
            out = bsr.attention_varlen(*given, wrong, causal=True)
            assert out.shape == given[0].shape
        first, end = _sequences._ranges([wrong, wrong], (333, 333), (None, 0))
        assert (first >= 0).all() and (end <= 333).all() and (first <= end).all()
        assert _ranges.flags_of(first, end, 333, (128, 128)).shape == (3, 3)


def test_what_are_no_sequences_is_refused() -> None:
    q, k, v = tensors(SAME, "cpu")
    cu = starts(SAME)[0]
    for words, call in {
        "descend: 3 follows 5": lambda: bsr.attention_varlen(q, k, v, [0, 5, 3]),
        "up to 333 rows": lambda: bsr.attention_varlen(q, k, v, [0, 400]),
        "2 sequences of queries and 1 of keys": lambda: bsr.attention_varlen(q, k, v, [0, 5, 6], [0, 7]),
        "cu_seqlens_q is 2 of float64": lambda: bsr.attention_varlen(q, k, v, [0.0, 5.0]),
        "q is 4 dimensions": lambda: bsr.attention_varlen(q[None], k, v, cu),
        "window = 3": lambda: bsr.attention_varlen(q, k, v, cu, window=3),
        "softcap = -1": lambda: bsr.attention_varlen(q, k, v, cu, softcap=-1),
    }.items():
        with pytest.raises(bsr.Error, match=words) as error:
            call()
        assert "help: " in str(error.value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["numbers", "tensor"])
def test_results_in_tensors_of_the_caller(kind, device) -> None:
    given, cu = tensors(SAME, device), of(kind, SAME, device)
    out, sums = torch.empty_like(given[0]), torch.empty(4, 333, device=device, dtype=torch.float32)
    sums = sums.double() if device == "cpu" else sums
    found = bsr.attention_varlen(*given, *cu, causal=True, out=out, lse=sums, lse_base=2)
    expected = dense(*given, SAME, True)
    assert found[0].data_ptr() == out.data_ptr() and found[1].data_ptr() == sums.data_ptr()
    close((out, sums), (expected[0], expected[1] / math.log(2)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_compiled_model_has_no_graph_break(device) -> None:
    given = tensors(SAME, device)

    @torch.compile(fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    def attend(q, k, v, cu):
        return bsr.attention_varlen(2.0 * q, k, v, cu, causal=True, window=(60, 0)).sum()

    for lengths in (SAME, [*SAME[3:], *SAME[:3]]):
        ours, theirs = ([x.clone().requires_grad_() for x in given] for _ in range(2))
        attend(*ours, torch.tensor(starts(lengths)[0], dtype=torch.int32, device=device)).backward()
        dense(2.0 * theirs[0], *theirs[1:], lengths, True, (60, 0))[0].sum().backward()
        # The gradient of 2 Q is rounded, and doubled then.
        close([x.grad for x in ours], [x.grad.double() for x in theirs], 4e-2)


@pytest.mark.gpu
def test_a_captured_graph_serves_all_lengths() -> None:
    given = [x.requires_grad_() for x in tensors(SAME, "cuda")]
    cu = torch.tensor(starts(SAME)[0], dtype=torch.int32, device="cuda")
    do = torch.randn_like(given[0])

    def step():
        out, lse = bsr.attention_varlen(*given, cu, causal=True, lse=True)
        return out, lse, torch.autograd.grad(out, given, do)

    graph, found = captured(step)
    for lengths in (SAME, [*SAME[3:], *SAME[:3]], [(111, 111)] * 3 + [(0, 0)] * 3):
        cu.copy_(torch.tensor(starts(lengths)[0], dtype=torch.int32))
        graph.replay()
        plain = [x.detach().double().requires_grad_() for x in given]
        expected = dense(*plain, lengths, True)
        close(found[:2], [x.detach() for x in expected])
        close(found[2], torch.autograd.grad(expected[0], plain, do.double()))


@pytest.mark.gpu
def test_lengths_of_the_host_and_of_the_device_give_the_same_bits() -> None:
    given = tensors(MIXED, "cuda")
    for causal in (False, True):
        found = [
            bsr.attention_varlen(*given, *of(kind, MIXED, "cuda"), causal=causal) for kind in ("numbers", "tensor")
        ]
        assert torch.equal(*found)


@pytest.mark.gpu
def test_decoding_divides_the_keys() -> None:
    lengths = [(1, 5000), (1, 3), (1, 2500), (1, 777)]
    given, cu = tensors(lengths, "cuda", heads=(8, 2), columns=(128, 128)), starts(lengths)
    for split in (None, "auto", 4):
        found = bsr.attention_varlen(*given, *cu, causal=True, lse=True, split=split, block=(64, 128))
        close(found, dense(*given, lengths, True))
