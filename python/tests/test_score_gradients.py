"""Gradients of a score's numbers and vectors: as products, and from the sums of kernels, seen without a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_launches_of_attention import WITH_GRADIENTS  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import AttentionMask as Mask  # noqa: E402
from bsr_gemm import DeviceMask  # noqa: E402


def dense(q, k, v, x, a, b, c):
    """The attention of :data:`WITH_GRADIENTS`; vectors are problems x heads x elements."""
    i, j = torch.arange(q.shape[2], dtype=q.dtype), torch.arange(k.shape[2], dtype=q.dtype)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    of_pairs = x * a[..., :, None] * b[..., None, :] - c[..., None] * (i[:, None] - j).abs()
    return torch.softmax(0.25 * q @ k.mT + of_pairs, dim=-1) @ v


@pytest.mark.parametrize("shapes", [((100,), (100,), (4,)), ((2, 1, 100), (1, 4, 100), (2, 4))])
def test_numbers_and_vectors_have_gradients(shapes) -> None:
    mask = Mask.full((100, 100), (64, 64))
    tensors = [torch.randn(2, count, 100, 8, dtype=torch.float64).requires_grad_() for count in (4, 2, 2)]
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(shape).mul(0.1).requires_grad_() for shape in shapes]
    numbers = dict(zip("xabc", (x, *vectors)))
    found = bsr.attention(*tensors, mask, score=WITH_GRADIENTS, numbers=numbers, scale=0.25)
    a, b, c = vectors
    right = dense(*tensors, x, a.expand(2, 4, 100), b.expand(2, 4, 100), c.expand(2, 4)[..., None])
    weights = torch.randn_like(right)
    leaves = [*tensors, x, *vectors]
    ours, theirs = (torch.autograd.grad((out * weights).sum(), leaves) for out in (found, right))
    for our, their, of in zip(ours, theirs, leaves):
        assert our.shape == of.shape and our.dtype == of.dtype
        torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
    # A number alone, and one that wants no gradient.
    out = bsr.attention(
        *(of.detach() for of in tensors),
        mask,
        score=WITH_GRADIENTS,
        numbers=numbers | dict(a=vectors[0].detach()),
        scale=0.25,
    )
    (alone,) = torch.autograd.grad((out * weights).sum(), [x])
    torch.testing.assert_close(alone, theirs[3], rtol=1e-4, atol=1e-5)


def leaves_of(device, dtype):
    """Q, K, V, a number, and the vectors of :data:`WITH_GRADIENTS`."""
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(2, count, 100, 32, generator=generator) for count in (4, 2, 2)]
    vectors = [torch.randn(shape, generator=generator) / 4 for shape in ((100,), (1, 4, 100), (4,))]
    given = [x.to(device, dtype) for x in tensors] + [x.to(device) for x in (torch.tensor(0.5), *vectors)]
    return [x.requires_grad_() for x in given]


def mask_of(kind, device):
    if kind == "rule":
        return None
    blocks = torch.ones(2, 2, dtype=torch.bool, device=device).tril()
    make = Mask.from_blocks if kind == "host" else DeviceMask.from_blocks
    return make(blocks.cpu().numpy() if kind == "host" else blocks, (100, 100), (64, 64))


def close(found, expected, device) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        error = ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()
        assert error < (5e-5 if device == "cpu" else 2e-2), error


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("around", ["nothing", "autocast", "checkpoint"])
@pytest.mark.parametrize("kind", ["rule", "host", "device"])
def test_compiled_gradients_are_those_of_eager_calls(kind, around, device) -> None:
    """Without a graph break; and eager ones are those of f64."""
    from torch.utils.checkpoint import checkpoint

    mask, cast = mask_of(kind, device), around == "autocast"
    leaves = leaves_of(device, torch.float32 if device == "cpu" or cast else torch.bfloat16)

    def attend(q, k, v, x, *vectors):
        numbers = dict(zip("xabc", (x, *vectors)))
        return bsr.attention(q, k, v, mask, score=WITH_GRADIENTS, numbers=numbers, scale=0.25, block=(64, 64))

    def loss(*leaves):
        with torch.autocast(device, torch.bfloat16, enabled=cast):
            out = checkpoint(attend, *leaves, use_reentrant=False) if around == "checkpoint" else attend(*leaves)
        return out.float().square().sum()

    expected = torch.autograd.grad(loss(*leaves), leaves)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    for _ in range(2):
        close(torch.autograd.grad(compiled(*leaves), leaves), expected, device)
    if device == "cpu" and not cast:
        wide = [x.detach().double().requires_grad_() for x in leaves]
        close(expected, torch.autograd.grad(loss(*wide), wide), device)


def test_numbers_are_read_when_a_graph_runs() -> None:
    q, k, v, x, *vectors = leaves_of("cpu", torch.float32)

    def attend(x):
        numbers = [x, 2.0]
        return bsr.attention(q, k, v, score="|x: f32, y: f32| s * scale + y * x * j / 100", numbers=numbers)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    for number in (0.5, -1.0, torch.tensor([3.0])):
        x = torch.as_tensor(number)
        assert torch.equal(compiled(x), attend(x)), "with no gradient, it is a number of the kernel"
    with pytest.raises(bsr.Error, match="number 0 of a score is 2\n  help: .* a vector"):
        attend(torch.zeros(2, requires_grad=True))
    with pytest.raises(bsr.Error, match="was not read"):
        bsr.attention(q, k, v, score="|x: f32| s * scale * unheard(x)", numbers=[x.requires_grad_()])


def test_transforms_have_gradients_of_vectors() -> None:
    q, k, v, x, *vectors = leaves_of("cpu", torch.float64)

    def loss(x, *vectors):
        numbers = dict(zip("xabc", (x, *vectors)))
        return bsr.attention(q.detach(), k.detach(), v.detach(), score=WITH_GRADIENTS, numbers=numbers).square().sum()

    expected = torch.autograd.grad(loss(x, *vectors), [x, *vectors])
    close(torch.func.grad(loss, (0, 1, 2, 3))(x, *vectors), expected, "cpu")
