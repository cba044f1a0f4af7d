"""FlexAttention's call in graphs of ``torch.compile``, without a graph break: beside the same calls without one."""

from __future__ import annotations

import types

import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

import flex_mods as mods  # noqa: E402
from test_flex import block_mask, dense, tensors  # noqa: E402

import bsr_gemm as bsr  # noqa: E402


def compiled(function):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def alike(found, expected) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("score", "mask"),
    [
        (None, None),
        (None, "everything"),
        (None, "and_masks"),
        (None, "a rule by head"),
        ("ALiBi", None),
        ("squares", None),
        ("causal soft cap", "window"),
        ("decay", "documents by problem"),
        ("steps of distance", "dilated"),
        ("an image", "NATTEN"),
    ],
)
def test_graphs_compute_what_eager_calls_do(score, mask) -> None:
    score_mod = None if score is None else mods.SCORES[score]
    blocks, given = None if mask is None else block_mask(mods.MASKS[mask]), tensors()

    def call(*given):
        return bsr.flex_attention(*given, score_mod, blocks, return_lse=True)

    results = []
    for function in (call, compiled(call)):
        out, lse = function(*given)
        loss = out.square().sum() + lse.masked_fill(lse.isneginf(), 0.0).sum()
        results.append((out, lse, *torch.autograd.grad(loss, given)))
    alike(*results)


@pytest.mark.parametrize("has_mask", [False, True])
def test_captured_tensors_may_change_and_have_gradients(has_mask) -> None:
    """Tensors of the function around, of the module and of functions that are called; the graph is made once."""
    q, k, v = (x.detach() for x in tensors())
    slopes, bias = torch.rand(mods.HEADS, requires_grad=True), torch.randn(mods.LENGTH, requires_grad=True)
    position, blocks = torch.arange(mods.LENGTH) // 3, block_mask(mods.causal) if has_mask else None

    def distance(i, j):
        return position[i] - position[j]

    def score_mod(s, b, h, i, j):
        return s - slopes[h] * distance(i, j).abs() + bias[j] + QUERY_BIAS[h, i] + HEAD_BIAS[h]

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    torch.compiler.reset()

    @torch.compile(fullgraph=True, backend=backend)
    def call(q, k, v):
        return bsr.flex_attention(q, k, v, score_mod, blocks)

    for _ in range(2):
        leaves = [slopes, bias]
        found, expected = call(q, k, v), dense(q, k, v, score_mod, mods.causal if has_mask else None)
        alike([found], [expected])
        alike(*(torch.autograd.grad(out.square().sum(), leaves) for out in (found, expected)))
        position = torch.arange(mods.LENGTH).flip(0) // 2
        with torch.no_grad():
            bias.add_(0.25)
    assert len(graphs) == 1


QUERY_BIAS, HEAD_BIAS = mods.QUERY_BIAS, mods.HEAD_BIAS


def test_lists_are_read_when_a_graph_runs() -> None:
    q, k, v = (x.detach() for x in tensors())
    blocks, further = block_mask(mods.causal), block_mask(mods.window)

    @compiled
    def call(q, k, v, blocks):
        return bsr.flex_attention(q, k, v, None, blocks)

    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"):
        assert getattr(blocks, name).shape == getattr(further, name).shape
    alike([call(q, k, v, blocks)], [dense(q, k, v, None, mods.causal)])
    blocks.kv_num_blocks[..., -1] = 0
    blocks.full_kv_num_blocks[..., -1] = 0
    out = call(q, k, v, blocks)
    assert not out[:, :, -32:].any(), "the last row of blocks is empty"
    alike([out[:, :, :-32]], [dense(q, k, v, None, mods.causal)[:, :, :-32]])
    alike([call(q, k, v, further)], [dense(q, k, v, None, mods.window)])


def test_other_numbers_and_shapes_are_other_graphs() -> None:
    width = 20.0

    def score_mod(s, b, h, i, j):
        return s - (i - j).abs() / width

    call = compiled(lambda q, k, v: bsr.flex_attention(q, k, v, score_mod))
    for number in (20.0, 30.0, 40.0):
        width = number
        q, k, v = (x.detach() for x in tensors())
        alike([call(q, k, v)], [dense(q, k, v, score_mod)])
    for keys in (100, 120):
        k, v = (x[:, :, :keys] for x in (k, v))
        alike([call(q, k, v)], [bsr.flex_attention(q, k, v, score_mod)])


def test_what_a_graph_does_not_see_is_refused() -> None:
    q, k, v = (x.detach() for x in tensors())
    config = types.SimpleNamespace(slope=0.5, bias=mods.SLOPES)
    cases = [
        (lambda s, b, h, i, j: s * config.slope, "reads a SimpleNamespace"),
        (lambda s, b, h, i, j: s * mods.SLOPES[h], "reads a module"),
        (lambda s, b, h, i, j, *, by={"a": 1}: s * by["a"], "reads a dict"),
        (lambda s, b, h, i, j: torch.minimum(s, torch.tensor(0.5)), "a number as one of Python"),
        (lambda s, b, h, i, j: torch.erf(s), "has no word"),
    ]
    for score_mod, words in cases:

        def call(q, k, v, score_mod=score_mod):
            return bsr.flex_attention(2 * q, k, v, score_mod) + 1

        with pytest.raises(Exception, match=words):
            compiled(call)(q, k, v)
        if score_mod is not cases[-1][0]:
            alike([torch.compile(call, backend="aot_eager")(q, k, v)], [call(q, k, v)])


def test_functions_of_a_compiled_function_break_its_graph() -> None:
    q, k, v = (x.detach() for x in tensors())

    @torch.compile(backend="aot_eager")
    def call(q, k, v, slopes):
        return bsr.flex_attention(2 * q, k, v, lambda s, b, h, i, j: s + slopes[h] * (i - j)) + 1

    expected = dense(2 * q, k, v, lambda s, b, h, i, j: s + mods.SLOPES.reshape(-1, 1, 1) * (i - j)) + 1
    alike([call(q, k, v, mods.SLOPES)], [expected])


def test_opcheck() -> None:
    q, k, v = tensors(torch.float64)
    bias, blocks = torch.randn(1, mods.LENGTH, requires_grad=True), block_mask(mods.causal)
    lists = [blocks.kv_num_blocks, blocks.kv_indices, blocks.full_kv_num_blocks, blocks.full_kv_indices]
    how = (lists, [32, 32], "i >= j", "|b: Cols<f32>| s * scale + b", 0.25, [bias], ["b"])
    torch.library.opcheck(torch.ops.bsr_gemm.flex_attention.default, (q, k, v, *how))


@pytest.mark.gpu
def test_kernels_in_graphs() -> None:
    shape, block = (2, 4, 1000, 64), (128, 128)
    given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
    slopes, document = torch.rand(4, device="cuda").requires_grad_(), torch.arange(1000, device="cuda") // 300

    def mask_mod(b, h, i, j):
        return (i >= j) & (document[i] == document[j])

    def score_mod(s, b, h, i, j):
        return s - slopes[h] * (i - j)

    blocks = flex.create_block_mask(mask_mod, 1, 1, 1000, 1000, device="cuda", BLOCK_SIZE=block)
    torch.compiler.reset()
    for score in (None, score_mod):

        def call(*given, score=score):
            return bsr.flex_attention(*given, score, blocks)

        leaves = given if score is None else [*given, slopes]
        of_out = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        results = []
        for function in (call, torch.compile(call, fullgraph=True)):
            out = function(*given)
            results.append((out, *torch.autograd.grad(out, leaves, of_out)))
        for ours, theirs in zip(*results):
            error = ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()
            assert error < 1e-2, error
