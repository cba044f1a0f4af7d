"""Attention as an operator of PyTorch: ``torch.ops.bsr_gemm.attention``.

A mask is handed to it by its key, as patterns are to products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _attention_choice, _block_choice, _calls, _combined, _gpu, _masks, _native, _sinks, _torch
from ._attention_gradient import gradients
from ._calls import Call, described
from ._masks import find
from ._native import Error
from ._operators import is_transformed, once, operator, refuse_forward
from ._results import Results

for _constant in (_calls.resolved, _masks.by_rule, _combined.combined):
    torch.compiler.assume_constant_result(_constant)


def call_of(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any,
    how: tuple,
    numbers: Any,
    scale: float | None,
    layout: Any,
    block: tuple[int, int] | None,
    spec_keys: str | None,
    sinks: Any,
) -> Call:
    """The call, in blocks that are chosen where they are open."""
    if block is None and _torch.is_dynamo_compiling():
        block = _block_choice.DEFAULT

    further = spec_keys, sinks is not None

    def specs(mask: Any, call: Call) -> list[str]:
        return _attention_choice.candidates(mask, call.q, call.k, call.v, call.closure, *further)

    def take(spec: str, mask: Any, call: Call) -> None:
        _attention_choice.take(spec, mask, call.q, call.k, call.v, call.closure, *further)

    tensors = [x for x in (q, k, v, sinks) if isinstance(x, Tensor)]
    kernels = (specs, take), _torch._wants_gradient(*tensors) or is_transformed()
    return _block_choice.call_of(q, k, v, pattern, how, numbers, scale, layout, block, further, *kernels)


def attention(call: Call, results: Results, spec_keys: str | None, sinks: Any) -> Any:
    """The result of a call, and the logarithms of sums where they are wanted."""
    q, k, v = _torch._cast(call.q.device.type, call.q, call.k, call.v)
    sinks = _sinks.read(sinks, q)
    wants_gradient = _torch._wants_gradient(q, k, v, sinks, *call.vectors)
    is_plain = not wants_gradient and not is_transformed()
    results.check(q, v, is_plain)
    settings = (call.key, call.closure, call.scale, call.numbers, results.wants_sums or wants_gradient)
    if not wants_gradient and _is_launch(q, k, v):
        given = (results.out, results.sums, results.workspace) if results.given else None
        out, sums = _attention_cuda(q, k, v, sinks, *settings, call.vectors, spec_keys, given)
    else:
        how = (*settings[:3], list(call.numbers), settings[4])
        if is_transformed():
            out, sums = Attention.apply(q, k, v, sinks, (*how, spec_keys), *call.vectors)
        else:
            out, sums = torch.ops.bsr_gemm.attention(q, k, v, sinks, *how, call.vectors, spec_keys)
    out, sums = results.written(out, sums, is_plain and not _torch.is_dynamo_compiling())
    out = call.as_given(out)
    return (out, sums) if results.wants_sums else out


def workspace(call: Call, spec_keys: str | None, sinks: Any) -> int:
    """Elements of f32 that CTAs of a call pass on to each other; none where it is no launch on a GPU."""
    q, k, v = _torch._cast(call.q.device.type, call.q, call.k, call.v)
    if not _is_launch(q, k, v) or 0 in (*q.shape, *v.shape):
        return 0
    from . import _attention_launch

    _check(q, k, v)
    found = _found(q, k, call.key)
    return _attention_launch.workspace(q, k, v, found, call.closure, spec_keys, sinks is not None)


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
    out, sums, _ = given or (None, None, None)
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


def _attention_fake(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, spec_keys=None):
    _check(q, k, v)
    if not mask.startswith("every:"):
        _found(q, k, mask)
    return _places(q, v, lse)


def _attention_cpu(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, spec_keys=None):
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


def _attention_cuda(q, k, v, sinks, mask, score, scale, numbers, lse, vectors=None, spec_keys=None, given=None):
    from . import _attention_launch

    numbers = tuple(numbers)
    how = (mask, score, scale, numbers, lse)
    further = (*(vectors or ()), *(() if sinks is None else (sinks,)))
    known = _attention_launch.direct(q, k, v, how, further, spec_keys, given)
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
    return _attention_launch.attention(q, k, v, out, sums, found, how, further, spec_keys, sinks is not None, given)


def _attention_gradient_fake(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None, wanted=None):
    of_vectors = [vector for vector, is_wanted in zip(vectors or (), wanted or ()) if is_wanted]
    return [torch.empty_like(tensor) for tensor in (q, k, v, *of_vectors)]


def _attention_gradient_cpu(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None, wanted=None):
    how = (_found(q, k, mask), score, scale, tuple(numbers), tuple(vectors or ()))
    return list(gradients(do, dlse, q, k, v, o, lse, *how, tuple(wanted or ())))


def _attention_gradient_cuda(do, dlse, q, k, v, o, lse, mask, score, scale, numbers, vectors=None, wanted=None):
    from . import _attention_launch

    how, of_score = (mask, score, scale, tuple(numbers)), (tuple(vectors or ()), tuple(wanted or ()))
    tensors = (q, k, v, o, do)
    found = _attention_launch.direct_gradient(tensors, lse, dlse, how, *of_score)
    if found is None:
        of_mask = _found(q, k, mask)
        if (of_mask.on_device or of_mask.stored) and 0 not in (*q.shape, *v.shape):
            found = _attention_launch.gradient(tensors, lse, dlse, of_mask, how, *of_score)
    if found is None:
        return _attention_gradient_cpu(do, dlse, q, k, v, o, lse, *how, *of_score)
    return found


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, sinks, mask, score, scale, numbers, lse, vectors, _ = inputs
    ctx.settings, ctx.held = (mask, score, scale, list(numbers)), find(mask, (q.shape[2], k.shape[2]))
    ctx.has_sums, ctx.generation = lse, ctx.held.generation
    ctx.set_materialize_grads(False)
    if not lse:
        ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, sinks, *output, *(vectors or ()))


def gradients_of(
    name: str,
    given: tuple[Tensor | None, Tensor | None],
    saved: tuple[Tensor, ...],
    how: tuple,
    sinks: Tensor | None = None,
    gradient: Callable | None = None,
) -> tuple | None:
    """The gradients that the operator of ``name`` has, that of sinks after them; None where none is given.

    ``given`` are those of O and of LSE, ``saved`` are Q, K, V, O and LSE; ``gradient`` stands for the operator.
    """
    do, dlse = given
    if do is None and dlse is None:
        return None
    q, k, v, o, lse = saved
    do = torch.zeros_like(o) if do is None else do
    refuse_forward(f"{name}_gradient", (do, dlse, q, k, v))
    with torch.no_grad():
        found = (gradient or getattr(torch.ops.bsr_gemm, f"{name}_gradient"))(do, dlse, *saved, *how)
        of_sinks = None if sinks is None else _sinks.gradient(do, dlse, o, lse, sinks)
    return once((*found, of_sinks), do, q, k, v)


def declare(
    name: str,
    how: str,
    fakes: tuple[Callable, Callable],
    forward: Callable,
    gradient: Callable,
    *,
    has_sinks: bool = False,
    of_lists: tuple[Callable, Callable] | None = None,
) -> None:
    """Declares an attention of Q, K, V and what ``how`` says in a schema, tensors first, and its gradient.

    ``forward`` and ``gradient`` make kernels of those of the CPU and of a GPU. ``of_lists`` saves tensors and computes the
    gradients where ``how`` has lists of tensors, whose gradients are listed behind those of Q, K and V.
    """
    sinks = "Tensor? sinks, " if has_sinks else ""
    count = (4 if has_sinks else 3) + sum(part.strip().startswith("Tensor") for part in how.split(","))

    def keep(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.how = inputs[count:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:count], *output)

    def backward(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
        q, k, v, *lists, o, lse = ctx.saved_tensors
        wanted = lists.pop(0) if has_sinks else None
        wanted = wanted if ctx.needs_input_grad[3] else None
        found = gradients_of(name, (do, dlse), (q, k, v, o, lse), (*lists, *ctx.how), wanted) or (None,) * 4
        return *found[: 3 + has_sinks], *(None,) * (len(lists) + len(ctx.how))

    keep, backward = of_lists or (keep, backward)
    operator(
        f"{name}(Tensor q, Tensor k, Tensor v, {sinks}{how}) -> (Tensor, Tensor)",
        fakes[0],
        forward(_attention_cpu),
        forward(_attention_cuda),
        backward=backward,
        keep=keep,
    )
    more, returns = (", bool[] wanted", "Tensor[]") if of_lists else ("", "(Tensor, Tensor, Tensor)")
    operator(
        f"{name}_gradient(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {how}{more})"
        f" -> {returns}",
        fakes[1],
        gradient(_attention_gradient_cpu),
        gradient(_attention_gradient_cuda),
    )


def _gradients(ctx: Any, do: Tensor | None, dlse: Tensor | None, wanted: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of Q, K, V and sinks, then of the score's vectors: of those that are ``wanted``."""
    q, k, v, sinks, o, lse, *vectors = ctx.saved_tensors
    if not ctx.has_sums:
        raise Error(
            "the gradient of an attention needs its LSE, which was not stored\n"
            "  help: `torch.ops.bsr_gemm.attention` with lse, or `bsr_gemm.attention`, which stores it"
        )
    _refuse_changed(ctx)

    def gradient(do: Tensor, *others: Any) -> Any:
        is_launch = _is_launch(q, k, v) and _torch._is_plain(do, o, dlse)
        kernel = _attention_gradient_cuda if is_launch else torch.ops.bsr_gemm.attention_gradient
        return kernel(do, *others)

    sinks, how = sinks if ctx.needs_input_grad[3] else None, (*ctx.settings, vectors, wanted)
    found = gradients_of("attention", (do, dlse), (q, k, v, o, lse), how, sinks, gradient)
    if found is None:
        return [None] * (4 + len(vectors))
    *found, of_sinks = found
    of_vectors = iter(found[3:])
    return [*found[:3], of_sinks, *(next(of_vectors) if is_wanted else None for is_wanted in wanted)]


def _backward(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
    """Of the operator, where the gradients of a list are a list of as many; an empty one may be one."""
    (_, _, _, numbers), wanted = ctx.settings, ctx.needs_input_grad[9]
    has_list = isinstance(wanted, (list, tuple))
    *found, none = *_gradients(ctx, do, dlse, wanted if has_list else ()), None
    of_vectors = found[4:] if has_list else none
    return *found[:4], none, none, none, none if numbers else [], none, of_vectors, none


def _backward_of_function(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
    *of_tensors, of_sinks = (found := _gradients(ctx, do, dlse, ctx.needs_input_grad[5:]))[:4]
    return *of_tensors, of_sinks, None, *found[4:]


def _refuse_changed(ctx: Any) -> None:
    if ctx.held.generation != ctx.generation:
        raise Error(
            "the DeviceMask has changed since the attention whose gradient is computed\n"
            "  help: `changed()` after the backward pass, or a mask for each attention"
        )


operator(
    # PyTorch 2.11 leaves out trailing arguments that are their default, and then expects fewer gradients.
    "attention(Tensor q, Tensor k, Tensor v, Tensor? sinks, str mask, str? score, float scale, float[] numbers, bool lse,"
    " Tensor[]? vectors, str? spec_keys) -> (Tensor, Tensor)",
    _attention_fake,
    _attention_cpu,
    _attention_cuda,
    backward=_backward,
    keep=_keep,
)
operator(
    "attention_gradient(Tensor do, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, str mask, str? score,"
    " float scale, float[] numbers, Tensor[]? vectors=None, bool[]? wanted=None) -> Tensor[]",
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
        *settings, spec_keys = how
        attend = _attention_cuda if _is_launch(q, k, v) else torch.ops.bsr_gemm.attention
        return attend(q, k, v, sinks, *settings, list(vectors), spec_keys)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, sinks, how, *vectors = inputs
        *settings, spec_keys = how
        _keep(ctx, (q, k, v, sinks, *settings, vectors, spec_keys), output)

    backward = staticmethod(_backward_of_function)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise Error(
            "an attention has no derivative in forward mode\n"
            "  help: its gradient (`torch.func.vjp`, `jacrev`), or one of dense tensors"
        )
