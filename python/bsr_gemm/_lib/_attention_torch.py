"""Attention as an operator of PyTorch: ``torch.ops.bsr_gemm.attention``.

A mask is handed to it by its key, as patterns are to products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _calls, _combined, _gpu, _masks, _native, _score_gradients, _sinks, _torch
from ._attention_gradient import gradients
from ._calls import Call, described
from ._masks import find
from ._native import Error
from ._operators import is_transformed, once, operator, refuse_forward
from ._results import Results

for _constant in (_calls.resolved, _masks.by_rule, _combined.combined):
    torch.compiler.assume_constant_result(_constant)


def attention(call: Call, results: Results, split: str | None, sinks: Any) -> Any:
    """The result of a call, and the logarithms of sums where they are wanted."""
    q, k, v = _torch._cast(call.q.device.type, call.q, call.k, call.v)
    sinks = _sinks.read(sinks, q)
    of_score = _torch._wants_gradient(*call.vectors, *call.learned)
    if of_score and (is_transformed() or _torch.is_dynamo_compiling()):
        raise Error(
            "numbers and vectors of a score have no gradient under `torch.compile` and transforms of torch.func\n"
            "  help: an attention outside of these, or `detach()`"
        )
    wants_gradient = of_score or _torch._wants_gradient(q, k, v, sinks)
    is_plain = not wants_gradient and not is_transformed()
    results.check(q, v, is_plain)
    settings = (call.key, call.closure, call.scale, call.numbers, results.wants_sums or wants_gradient)
    if not wants_gradient and _is_launch(q, k, v):
        given = (results.out, results.sums) if results.given else None
        out, sums = _attention_cuda(q, k, v, sinks, *settings, call.vectors, split, given)
    else:
        how = (*settings[:3], list(call.numbers), settings[4])
        if is_transformed():
            out, sums = Attention.apply(q, k, v, sinks, (*how, split), *call.vectors)
        elif wants_gradient and not _torch.is_dynamo_compiling():
            out, sums = EagerAttention.apply(q, k, v, sinks, (*how, split), *call.vectors, *call.learned)
        else:
            out, sums = torch.ops.bsr_gemm.attention(q, k, v, sinks, *how, call.vectors, split)
    out, sums = results.written(out, sums, is_plain and not _torch.is_dynamo_compiling())
    out = call.as_given(out)
    return (out, sums) if results.wants_sums else out


def _is_launch(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a call is no more than launches: an operator's way through the dispatcher costs the host more than these."""
    return not _torch.is_dynamo_compiling() and q.is_cuda and _torch._is_plain(q, k, v)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """What the tensors must be of each other."""
    words = f"q is {_words(q)}, k is {_words(k)} and v is {_words(v)}: problems x heads x rows x columns"
    fits = q.dim() == k.dim() == v.dim() == 4 and k.shape[:3] == v.shape[:3]
    if not fits or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise Error(
            f"{words}\n  help: k and v of one shape but for the columns of v, with the problems of q, and k with its columns"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0:
        raise Error(f"{words}\n  help: a number of heads of k and v that divides {q.shape[1]}, the heads of q")
    if q.dtype != k.dtype or q.dtype != v.dtype:
        raise Error(
            f"q is of {q.dtype}, k of {k.dtype} and v of {v.dtype}\n  help: convert them, or run under `torch.autocast`"
        )
    if q.device != k.device or q.device != v.device:
        raise Error(f"q is on {q.device}, k on {k.device} and v on {v.device}\n  help: move them to one")


def _found(q: Tensor, k: Tensor, mask: str) -> Any:
    """The mask with this key, which must be one of the tensors."""
    found = find(mask, (q.shape[2], k.shape[2]))
    if (q.shape[2], k.shape[2]) != found.sizes:
        raise Error(
            f"the mask is of {found.sizes[0]} queries x {found.sizes[1]} keys, and q has {q.shape[2]} and k {k.shape[2]}"
        )
    wanted = {"all": 1, "head": q.shape[1], "problem": q.shape[0], "both": q.shape[0] * q.shape[1]}[found.per]
    if found.patterns != wanted:
        raise Error(
            f"the mask has {found.patterns} patterns per {found.per}, and there are {q.shape[0]} problems of "
            f"{q.shape[1]} heads\n  help: {wanted} patterns"
        )
    return found


def _words(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def _places(q: Tensor, v: Tensor, lse: bool, given: Any = None) -> tuple[Tensor, Tensor]:
    """The outputs: those that are given, and new ones. A new O has the layout of Q."""
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    out, sums = given or (None, None)
    if out is None:
        # Of the columns of V where those are others: rows of heads side by side, or heads of rows.
        rows_first = q.shape[1] > 1 and q.stride(1) < q.stride(2)
        out = torch.empty_like(q)
        if q.shape[3] != v.shape[3]:
            problems, heads, rows = q.shape[:3]
            shape = (problems, rows, heads, v.shape[3]) if rows_first else (problems, heads, rows, v.shape[3])
            out = q.new_empty(shape).transpose(1, 2) if rows_first else q.new_empty(shape)
    # The kernel writes LSE row by row without gaps; any other tensor gets a copy.
    if sums is None or not sums.is_contiguous():
        sums = q.new_empty(tuple(q.shape[:3]) if lse else (0,), dtype=dtype)
    return out, sums


def _attention_fake(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, split=None):
    _check(q, k, v)
    if not mask.startswith("every:"):
        _found(q, k, mask)
    return _places(q, v, lse)


def _attention_cpu(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, split=None):
    _check(q, k, v)
    found = _found(q, k, mask)
    out, sums = _places(q, v, lse)
    if out.numel():
        tensors = [described(tensor) for tensor in (q, k, v, out)]
        collected = described(sums[..., None]) if lse else None
        of_score = [described(vector) for vector in vectors or ()]
        of_heads = None if sinks is None else sinks.tolist()
        _native.attend(found._native, tensors, scale, score, list(numbers), of_score, collected, of_heads)
    elif lse:
        _without_keys(sums, sinks)
    return out, sums


def _without_keys(sums: Tensor, sinks: Tensor | None) -> Tensor:
    """LSE of queries without keys."""
    return sums.fill_(-torch.inf) if sinks is None or sums.dim() < 3 else sums.copy_(sinks[:, None].expand_as(sums))


def _attention_cuda(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, split=None, given=None):
    from . import _attention_launch

    numbers = tuple(numbers)
    how = (mask, score, scale, numbers, lse)
    further = (*(vectors or ()), *(() if sinks is None else (sinks,)))
    known = _attention_launch.direct(q, k, v, how, further, split, given)
    if known is not None:
        return known
    _gpu.refuse_fork()
    _check(q, k, v)
    found = _found(q, k, mask)
    out, sums = _places(q, v, lse, given)
    if out.numel() == 0:
        return out, sums
    if k.shape[2] == 0:
        return out.zero_(), _without_keys(sums, sinks)
    return _attention_launch.attention(q, k, v, out, sums, found, how, further, split, sinks is not None, given)


def _attention_gradient_fake(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None):
    return tuple(torch.empty_like(tensor) for tensor in (q, k, v))


def _attention_gradient_cpu(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None):
    found = _found(q, k, mask)
    return gradients(do, dlse, q, k, v, o, lse, found, score, scale, tuple(numbers), tuple(vectors or ()))


def _attention_gradient_cuda(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None):
    from . import _attention_launch

    tensors, how, vectors = (q, k, v, o, do), (mask, score, scale, tuple(numbers)), tuple(vectors or ())
    gradients = _attention_launch.direct_gradient(tensors, lse, dlse, how, vectors)
    if gradients is None:
        found = _found(q, k, mask)
        if (found.on_device or found.stored) and 0 not in (*q.shape, *v.shape):
            gradients = _attention_launch.gradient(tensors, lse, dlse, found, how, vectors)
    if gradients is None:
        return _attention_gradient_cpu(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors)
    return gradients


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, sinks, mask, score, scale, numbers, lse, vectors, _ = inputs
    ctx.settings, ctx.held = (mask, score, scale, list(numbers)), find(mask, (q.shape[2], k.shape[2]))
    ctx.has_sums, ctx.generation = lse, ctx.held.generation
    ctx.set_materialize_grads(False)
    if not lse:
        ctx.mark_non_differentiable(output[1])
    # Gradients of lists of tensors are lists of as many; an empty list may be one.
    of_vectors = None if vectors is None else [None] * len(vectors)
    ctx.none = None, None, None, None if numbers else [], None, of_vectors, None
    ctx.save_for_backward(q, k, v, sinks, *output, *(vectors or ()))


def _backward(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
    q, k, v, sinks, o, lse, *vectors = ctx.saved_tensors
    if not ctx.has_sums:
        raise Error(
            "the gradient of an attention needs its LSE, which was not stored\n"
            "  help: `torch.ops.bsr_gemm.attention` with lse, or `bsr_gemm.attention`, which stores it"
        )
    _refuse_changed(ctx)
    if do is None and dlse is None:
        return None, None, None, None, *ctx.none
    do = torch.zeros_like(o) if do is None else do
    refuse_forward("attention_gradient", (do, dlse, q, k, v))
    with torch.no_grad():
        is_launch = _is_launch(q, k, v) and _torch._is_plain(do, o, dlse)
        gradient = _attention_gradient_cuda if is_launch else torch.ops.bsr_gemm.attention_gradient
        found = gradient(do, dlse, q, k, v, o, lse, *ctx.settings, vectors)
        of_sinks = _gradient_of_sinks(ctx, do, dlse, o, lse, sinks)
    return *once((*found, of_sinks), do, q, k, v), *ctx.none


def _gradient_of_sinks(
    ctx: Any, do: Tensor, dlse: Tensor | None, o: Tensor, lse: Tensor, sinks: Tensor | None
) -> Tensor | None:
    """The gradient of sinks where it is wanted."""
    return _sinks.gradient(do, dlse, o, lse, sinks) if sinks is not None and ctx.needs_input_grad[3] else None


def _backward_with_score(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
    """The same with the gradients of those vectors and numbers of the score that want one."""
    is_wanted = ctx.needs_input_grad[5:]
    if not any(is_wanted) or (do is None and dlse is None):
        return _backward(ctx, do, dlse)
    _refuse_changed(ctx)
    q, k, v, sinks, o, lse, *vectors = ctx.saved_tensors
    mask, score, scale, numbers = ctx.settings
    wanted = [of if of_this else None for of, of_this in zip([*vectors, *ctx.learned], is_wanted)]
    do = torch.zeros_like(o) if do is None else do
    with torch.no_grad():
        given, how = (do, dlse, q, k, v, o, lse), (mask, score, scale, tuple(numbers))
        dq, dk, dv, *of_score = _score_gradients.gradients(given, _found(q, k, mask), how, vectors, wanted)
        of_sinks = _gradient_of_sinks(ctx, do, dlse, o, lse, sinks)
    dq, dk, dv, of_sinks, *of_score = once((dq, dk, dv, of_sinks, *of_score), do, q, k, v)
    return dq, dk, dv, of_sinks, None, *of_score


def _refuse_changed(ctx: Any) -> None:
    if ctx.held.generation != ctx.generation:
        raise Error(
            "the DeviceMask has changed since the attention whose gradient is computed\n"
            "  help: `changed()` after the backward pass, or a mask for each attention"
        )


operator(
    # PyTorch 2.11 leaves out trailing arguments that are their default, and then expects fewer gradients.
    "attention(Tensor q, Tensor k, Tensor v, Tensor? sinks, str mask, str? score, float scale, float[] numbers, bool lse,"
    " Tensor[]? vectors, str? split) -> (Tensor, Tensor)",
    _attention_fake,
    _attention_cpu,
    _attention_cuda,
    backward=_backward,
    keep=_keep,
)
operator(
    "attention_gradient(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, str mask, str? score,"
    " float scale, float[] numbers, Tensor[]? vectors=None) -> (Tensor, Tensor, Tensor)",
    _attention_gradient_fake,
    _attention_gradient_cpu,
    _attention_gradient_cuda,
)


class Attention(torch.autograd.Function):
    """The operator for transforms of torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, how: tuple, *vectors: Tensor
    ) -> tuple[Tensor, Tensor]:
        *settings, split = how
        attend = _attention_cuda if _is_launch(q, k, v) else torch.ops.bsr_gemm.attention
        return attend(q, k, v, sinks, *settings, list(vectors), split)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, sinks, how, *vectors = inputs
        *settings, split = how
        _keep(ctx, (q, k, v, sinks, *settings, vectors, split), output)
        ctx.none = (None,) * (1 + len(vectors))

    backward = staticmethod(_backward)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise Error(
            "an attention has no derivative in forward mode\n"
            "  help: its gradient (`torch.func.vjp`, `jacrev`), or one of dense tensors"
        )


class EagerAttention(torch.autograd.Function):
    """The same where no transform is active.

    The gradient of an operator takes the host longer, and so does a function with ``setup_context``: PyTorch inspects the
    signature of its ``forward`` in every call.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        # The score's numbers are behind its vectors, which have three dimensions.
        ctx.learned = [x for x in inputs[5:] if x is None or x.dim() < 3]
        given = inputs[: len(inputs) - len(ctx.learned)]
        output = Attention.forward(*given)
        Attention.setup_context(ctx, given, output)
        ctx.none = (*ctx.none, *(None for _ in ctx.learned))
        return output

    backward = staticmethod(_backward_with_score)
