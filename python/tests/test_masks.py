"""Conditions of masks: in which blocks they count, beside scores, and combined."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_attention import allowed, dense, tensors, window_pairs  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm._lib._conditions import closure_of, condition_of  # noqa: E402
from bsr_gemm._lib._score import score_of  # noqa: E402

SIZES, BLOCK = (45, 60), (16, 8)
ROWS, COLUMNS = torch.arange(SIZES[0])[:, None], torch.arange(SIZES[1])[None, :]
SLOPED = "|slope: f32| s * scale - slope * (i - j)"
CONDITIONS = [
    ("i >= j", ROWS >= COLUMNS),
    ("i >= j && i - j < 12", (ROWS >= COLUMNS) & (ROWS - COLUMNS < 12)),
    ("i >= j && (i - j <= 9 || j < 16)", (ROWS >= COLUMNS) & ((ROWS - COLUMNS <= 9) | (COLUMNS < 16))),
    ("!(i >= j || j > 40)", ~((ROWS >= COLUMNS) | (COLUMNS > 40))),
    ("abs(i - j) != 3", (ROWS - COLUMNS).abs() != 3),
    ("2 * i + 3 > min(j, 30) * 2", 2 * ROWS + 3 > COLUMNS.clamp(max=30) * 2),
    ("(i - 4) * (j - 20) > -100", (ROWS - 4) * (COLUMNS - 20) > -100),
    ("j == 5 || i == 7", (COLUMNS == 5) | (ROWS == 7)),
]


def sloped(s, scale, i, j):
    return s * scale - 0.125 * (i - j)


def error(found, pairs, score=None, given=None) -> float:
    q, k, v = given
    expected, _ = dense(q, k, v, pairs.expand(*q.shape[:2], *SIZES), score)
    return (found - expected).abs().max().item()


@pytest.fixture
def qkv():
    return tensors((2, 2, SIZES[0], 8), 1, SIZES[1])


@pytest.mark.parametrize(("text", "pairs"), CONDITIONS)
def test_a_condition_is_that_of_every_pair(text, pairs, qkv) -> None:
    mask = Mask.where(text, SIZES, BLOCK)
    assert torch.equal(allowed(mask, 1, 1, pairs)[0, 0], pairs), "blocks that are whole or left out are so in truth"
    again = condition_of(condition_of(text).text)
    assert again == condition_of(text) and Mask.where(again.text, SIZES, BLOCK) == mask
    assert error(bsr.attention(*qkv, mask), pairs, given=qkv) < 1e-12
    for how in ({}, {"score": SLOPED, "numbers": [0.125]}):
        found = bsr.attention(*qkv, mask=text, block=BLOCK, **how)
        assert error(found, pairs, sloped if how else None, qkv) < 1e-12
        assert error(bsr.attention(*qkv, mask, **how), pairs, sloped if how else None, qkv) < 1e-12


def test_only_blocks_that_a_condition_divides_are_partial() -> None:
    for text, pairs in CONDITIONS[:3]:
        assert np.array_equal(Mask.where(text, SIZES, BLOCK).blocks(), Mask.from_pairs(pairs, BLOCK).blocks())
    assert np.array_equal(Mask.where("i >= j", SIZES, BLOCK).blocks(), Mask.causal(SIZES, BLOCK).blocks())


@pytest.mark.parametrize("mask", [Mask.causal(SIZES, BLOCK), Mask.window(SIZES, BLOCK, before=9, after=3)])
def test_a_mask_counts_under_every_score(mask, qkv) -> None:
    pairs = ROWS >= COLUMNS if mask.mask == "i >= j" else window_pairs(*SIZES, 9, 3)
    for score in (SLOPED, "|slope: f32| { let near = i - j; s * scale - slope * near }"):
        found = bsr.attention(*qkv, mask, score=score, numbers={"slope": 0.125})
        assert error(found, pairs, sloped, qkv) < 1e-12
        inputs = [x.clone().requires_grad_() for x in qkv]
        leaks = bsr.attention(*inputs, mask, score=score, numbers={"slope": 0.125})[:, :, 0].sum()
        (dv,) = torch.autograd.grad(leaks, inputs[2])
        assert not dv[:, :, ~pairs[0]].any()
    ids = torch.arange(SIZES[1]) // 20
    documents = "|a: Rows<f32>, b: Cols<f32>| a == b || j == 0"
    given = {"a": ids[: SIZES[0]], "b": ids, "slope": 0.125}
    found = bsr.attention(*qkv, mask, mask=documents, score=SLOPED, numbers=given)
    same = (ids[: SIZES[0], None] == ids[None, :]) | (COLUMNS == 0)
    assert error(found, pairs & same, sloped, qkv) < 1e-12
    found = bsr.attention(*qkv, mask, mask=documents, numbers={"a": given["a"], "b": ids}, causal=True)
    assert error(found, pairs & same & (ROWS >= COLUMNS), None, qkv) < 1e-12


def test_conditions_on_the_simulator() -> None:
    q, k, v = tensors((1, 2, 100, 32), dtype=torch.bfloat16)
    i, j = torch.arange(100)[:, None], torch.arange(100)[None, :]
    text, kept = "i >= j && (i - j < 20 || j < 3) && !(j == 50)", (i >= j) & ((i - j < 20) | (j < 3)) & (j != 50)
    score = "|slope: f32| { let near = i - j; s * scale - slope * near }"
    run = bsr.simulate_attention(q, k, v, mask=text, score=score, numbers=[0.125], block=(64, 64))
    expected, _ = dense(*(x.double() for x in (q, k, v)), kept.expand(1, 2, 100, 100), sloped)
    assert run.findings == [] and ((run.result.double() - expected).norm() / expected.norm()).item() < 5e-3


def test_a_ragged_edge_changes_no_meaning() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    for length in (256, 300):
        q, k, v = tensors((1, 2, length, 8))
        kept = torch.ones(length, length, dtype=bool).tril()
        block_mask = flex.create_block_mask(flex.noop_mask, None, None, length, length, device="cpu")
        capped = "if i >= j { 8.0 * tanh(s * scale / 8.0) } else { -inf }"
        for how in ({"mask": "i >= j"}, {"score": "if i >= j { s * scale } else { -inf }"}, {"causal": True}):
            found = bsr.attention(q, k, v, block_mask, **how)
            torch.testing.assert_close(found, dense(q, k, v, kept)[0])
        with pytest.raises(bsr.Error, match="is whole, and it is not certain"):
            Mask.from_block_mask(block_mask, mask="i >= j")
        found = bsr.attention(q, k, v, block_mask, score=capped)
        torch.testing.assert_close(found, dense(q, k, v, kept, lambda s, c, i, j: 8 * torch.tanh(s * c / 8))[0])


def test_a_block_mask_that_changes_in_place_is_read_again(qkv) -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = tensors((1, 1, 64, 8))
    block_mask = flex.create_block_mask(flex.noop_mask, None, None, 64, 64, device="cpu", BLOCK_SIZE=(16, 16))
    before = bsr.attention(q, k, v, block_mask)
    torch.testing.assert_close(before, dense(q, k, v, torch.ones(64, 64, dtype=bool))[0])
    block_mask.full_kv_num_blocks.fill_(1)
    kept = torch.zeros(64, 64, dtype=bool)
    for row, column in enumerate(block_mask.full_kv_indices[0, 0, :, 0].tolist()):
        kept[16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = True
    torch.testing.assert_close(bsr.attention(q, k, v, block_mask), dense(q, k, v, kept)[0])


def pairs_of(mask: Mask, batch: int, heads: int) -> torch.Tensor:
    condition = dict(CONDITIONS) | {f"j <= i + {a} && i <= j + {b}": window_pairs(*SIZES, b, a) for a, b in [(3, 9)]}
    return allowed(mask, batch, heads, condition.get(mask.mask))


def masks():
    rng = np.random.default_rng(0)
    grid = (3, 8)
    yield Mask.full(SIZES, BLOCK)
    yield Mask.causal(SIZES, BLOCK)
    yield Mask.window(SIZES, BLOCK, before=9, after=3)
    yield Mask.random(SIZES, BLOCK, density=0.4)
    yield Mask.from_blocks(rng.random((1, 4, *grid)) < 0.5, SIZES, BLOCK)
    yield Mask.from_blocks(rng.random((2, 1, *grid)) < 0.5, SIZES, BLOCK)
    yield Mask.from_blocks(rng.random((2, 4, *grid)) < 0.5, SIZES, BLOCK)
    yield Mask.from_blocks(rng.random((2, 4, *grid)) < 0.5, SIZES, BLOCK) & Mask.causal(SIZES, BLOCK)
    yield Mask.where(CONDITIONS[2][0], SIZES, BLOCK)


def test_masks_are_combined() -> None:
    """Every two of them, with the pairs that both or either have; or words that say why they are not."""
    given = tensors((2, 4, SIZES[0], 8), 1, SIZES[1])
    refused = 0
    for first in masks():
        for second in masks():
            one, other = (pairs_of(mask, 2, 4) for mask in (first, second))
            for sign, pairs in (("&", one & other), ("|", one | other)):
                try:
                    made = first & second if sign == "&" else first | second
                except bsr.Error as error_:
                    assert sign == "|" and "is left out, and it is not certain" in str(error_), (
                        f"{first} {sign} {second}"
                    )
                    refused += 1
                    continue
                assert error(bsr.attention(*given, made), pairs, given=given) < 1e-12, f"{first} {sign} {second}"
                try:
                    found = bsr.attention(*given, made, score=SLOPED, numbers=[0.125])
                except bsr.Error as error_:
                    assert sign == "|" and "is whole, and it is not certain" in str(error_)
                else:
                    assert error(found, pairs, sloped, given) < 1e-12, f"{first} {sign} {second}, sloped"
    assert 0 < refused < 30


def test_what_is_not_known_is_not_combined() -> None:
    # Keys that all queries see, in whole blocks, beside a window that does not say so.
    sinks = np.zeros((3, 8), dtype=bool)
    sinks[:, 0] = True
    window = Mask.window(SIZES, BLOCK, before=9)
    either = Mask.from_blocks(sinks, SIZES, BLOCK) | window
    pairs = window_pairs(*SIZES, 9, 0) | (COLUMNS < 8)
    given = tensors((1, 1, SIZES[0], 8), 1, SIZES[1])
    assert error(bsr.attention(*given, either), pairs, given=given) < 1e-12
    with pytest.raises(bsr.Error, match=r"block \(\d, 0\) is whole, and it is not certain that .* holds for all"):
        bsr.attention(*given, either, score=SLOPED, numbers=[0.125])
    told = Mask.where("j <= i && i <= j + 9 || j < 8", SIZES, BLOCK)
    assert error(bsr.attention(*given, told, score=SLOPED, numbers=[0.125]), pairs, sloped, given) < 1e-12
    documents = Mask.where("|a: Rows<f32>, b: Cols<f32>| a == b", SIZES, BLOCK)
    with pytest.raises(bsr.Error, match="in the whole blocks of the masks is not known here"):
        documents | Mask.from_blocks(sinks, SIZES, BLOCK)
    with pytest.raises(bsr.Error, match="it has no condition for their pairs"):
        Mask.from_pairs(ROWS >= COLUMNS, BLOCK) & window
    with pytest.raises(bsr.Error, match="other sizes or blocks"):
        window & Mask.full(SIZES, (16, 16))
    three, four = (Mask.from_blocks(np.ones((1, heads, 3, 8), dtype=bool), SIZES, BLOCK) for heads in (3, 4))
    with pytest.raises(bsr.Error, match="3 patterns per head and 4 per head are not of the same"):
        three & four


def test_closures_of_conditions() -> None:
    closures = [
        ("i >= j", None, "|| if i >= j { s * scale } else { -inf }"),
        (
            "|w: f32| i >= j && i - j < w",
            "|a: Heads<f32>| s * a",
            "|a: Heads<f32>, w: f32| if i >= j { if i - j < w { s * a } else { -inf } } else { -inf }",
        ),
        (
            "!(i < j || !(j < 4))",
            None,
            "|| if (1.0 - max(select(i < j, 1.0, 0.0), (1.0 - select(j < 4, 1.0, 0.0)))) > 0.0 { s * scale } else { -inf }",
        ),
    ]
    for mask, score, closure in closures:
        assert closure_of(condition_of(mask), None if score is None else score_of(score)) == closure
        assert score_of(closure).tree is not None


def test_integers_that_would_be_equal_are_refused(qkv) -> None:
    ids = torch.arange(SIZES[1]) // 20 + (1 << 24) - 2
    text = "|a: Rows<f32>, b: Cols<f32>| a == b"
    call = torch.compile(bsr.attention, backend="aot_eager")
    for attend in (bsr.attention, call):
        given = {"a": ids[: SIZES[0]], "b": ids}
        pairs = ids[: SIZES[0], None] == ids[None, :]
        assert error(attend(*qkv, mask=text, numbers=given, block=BLOCK), pairs, given=qkv) < 1e-12
        for further in (1, -(1 << 40)):
            with pytest.raises(
                bsr.Error, match="is converted to torch.float32, which represents integers exactly up to 16777216"
            ):
                attend(*qkv, mask=text, numbers={"a": ids[: SIZES[0]] + further, "b": ids + further}, block=BLOCK)
    few = torch.arange(SIZES[1]) * 8
    narrow = "|a: Rows<bf16>, b: Cols<bf16>| a == b"
    with pytest.raises(bsr.Error, match="264 is converted to torch.bfloat16"):
        bsr.attention(*qkv, mask=narrow, numbers={"a": few[: SIZES[0]], "b": few}, block=BLOCK)
    few.clamp_(max=200)
    kept = few[: SIZES[0], None] == few[None, :]
    found = bsr.attention(*qkv, mask=narrow, numbers={"a": few[: SIZES[0]], "b": few}, block=BLOCK)
    assert error(found, kept, given=qkv) < 1e-12
    few.add_(1000)
    with pytest.raises(bsr.Error, match="1000 is converted to torch.bfloat16"):
        bsr.attention(*qkv, mask=narrow, numbers={"a": few[: SIZES[0]], "b": few}, block=BLOCK)


def test_masks_in_compiled_functions(qkv) -> None:
    """Lengths, numbers and masks that differ from call to call; what no graph can do says what to do instead."""
    window = Mask.window(SIZES, BLOCK, before=9)

    def check(attend, *calls) -> None:
        torch.compiler.reset()
        compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
        for call in calls:
            torch.testing.assert_close(compiled(*call), attend(*call))

    lengths = [tensors((1, 2, length, 8)) for length in (64, 80, 100, 37)]
    check(lambda q, k, v: bsr.attention(q, k, v, causal=True, block=BLOCK), *lengths)
    check(lambda q, k, v: bsr.attention(q, k, v, mask="j < 30", score="s * scale - 0.1 * j", block=BLOCK), *lengths)
    numbers = [(*qkv, number) for number in (0.5, 0.25, 0.125, 2)]
    check(lambda q, k, v, c: bsr.attention(q, k, v, window, score=SLOPED, numbers={"slope": c}), *numbers)
    check(lambda q, k, v, c: bsr.attention(q, k, v, window, scale=c), *numbers)
    check(lambda q, k, v: bsr.attention(q, k, v, Mask.causal(SIZES, BLOCK) & "j > 3" | window), qkv)
    check(bsr.attention, (*qkv, window), (*qkv, Mask.causal(SIZES, BLOCK)))
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    block_mask = flex.create_block_mask(flex.noop_mask, None, None, 64, 64, device="cpu", BLOCK_SIZE=(16, 16))
    w = bsr.from_dense(torch.randn(16, 16), (4, 4), keep=0.5)
    refused = [
        (lambda x: bsr.attention(x, x, x, block_mask), "outside of the compiled function"),
        (lambda x: bsr.attention(x, x, x, score=SLOPED, numbers=[x[0, 0, 0]], block=BLOCK), "number 0 of a score is 8"),
        (lambda x: bsr.bsr_gemm(w.T, x[0, 0].t()), "transpose=True"),
        (lambda x: x[0, 0] @ w.to_dense()[:8], "outside of it"),
        (lambda x: bsr.from_dense(x[0, 0], (8, 8)).values, "outside of it"),
    ]
    for call, words in refused:
        torch.compiler.reset()
        with pytest.raises(Exception, match=words):
            torch.compile(call, fullgraph=True, backend="aot_eager")(torch.randn(1, 1, 64, 8))
