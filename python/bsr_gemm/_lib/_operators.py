"""How an operator of PyTorch is made: ``torch.ops.bsr_gemm`` has those that other modules declare with :func:`operator`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._library import autograd as of_operators
from torch.autograd import forward_ad

from ._native import Error

library = torch.library.Library("bsr_gemm", "DEF")
transforms = torch._C._functorch.peek_interpreter_stack

#: In a schema: the tensors of a pattern, where these and not its key name it.
PLACES = "Tensor? row_ptr=None, Tensor? col_idx=None"


def operator(
    schema: str,
    fake: Callable,
    cpu: Callable,
    cuda: Callable | None = None,
    *,
    backward: Callable | None = None,
    keep: Callable | None = None,
    batched: bool = True,
) -> None:
    """Declares an operator.

    ``fake`` makes results without values, for PyTorch's compiler; ``cpu`` and ``cuda`` compute them, where one of them may
    serve both. ``keep`` saves what ``backward`` needs. With ``batched`` the operator has a rule for ``vmap``.
    """
    name = schema.partition("(")[0]
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.register_fake(f"bsr_gemm::{name}", fake, lib=library)
    for key, kernel in (("CPU", cpu), ("CUDA", cuda or cpu)):
        library.impl(name, kernel, key)
    if backward is not None:
        _differentiate(name, backward, keep)
    if batched:
        _batch(name)


def is_transformed() -> bool:
    """Whether a transform of torch.func or forward mode is active, which plain operators do not support."""
    return not torch.compiler.is_dynamo_compiling() and (transforms() is not None or forward_ad._current_level >= 0)


class _Once(torch.autograd.Function):
    """Gradients that have none themselves."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor | None) -> tuple:
        # Those after the first are what the gradients were computed of.
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise Error(
            "the second derivative of a block-sparse product is not computed\n"
            "  help: leave out `create_graph=True`, or take the gradient of `w.to_dense()` times x"
        )


def once(gradients: tuple, *of: Tensor | None) -> tuple:
    """Gradients, with the refusal of theirs where a graph of them is recorded."""
    if not torch.is_grad_enabled():
        return gradients
    return _Once.apply(len(gradients), *gradients, *of)


def _differentiate(name: str, backward: Callable, keep: Callable | None) -> None:
    """Gives an operator its gradient, and a refusal of derivatives that it does not have."""
    # What runs below this computes no gradients of its own.
    op = getattr(torch.ops.bsr_gemm, name).default
    differentiated = of_operators.make_autograd_impl(op, of_operators.Info(backward, keep))

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_forward(name, args)
        if transforms() is not None and torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            raise Error(
                f"`torch.ops.bsr_gemm.{name}` has no gradient under a transform of torch.func\n"
                "  help: `bsr_gemm.linear`, `sddmm`, `attention` and the layers have one"
            )
        return differentiated(keyset, *args, **kwargs)

    library.impl(name, kernel, "Autograd", with_keyset=True)


def _batch(name: str) -> None:
    """Gives an operator a rule for ``vmap``: one call for each element of a batch, and one for all where only ``x`` has it."""
    op = getattr(torch.ops.bsr_gemm, name).default

    def mapped(info: Any, in_dims: tuple, *args: Any, **kwargs: Any) -> Any:
        if name == "linear" and in_dims[0] is not None and not any(dim is not None for dim in in_dims[1:]):
            x = args[0].movedim(in_dims[0], 0)
            y = op(x.reshape(-1, x.shape[-1]), *args[1:], **kwargs)
            return y.view(*x.shape[:-1], y.shape[-1]), 0
        results = [
            op(*(_at(arg, dim, index) for arg, dim in zip(args, in_dims)), **kwargs) for index in range(info.batch_size)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        stacked = [torch.stack(parts) for parts in zip(*results)]
        # A list of tensors is one result, whose dimensions are a list.
        like = type(results[0])
        return like(stacked), like([0] * len(stacked))

    torch.library.register_vmap(f"bsr_gemm::{name}", mapped, lib=library)


def refuse_forward(name: str, args: Sequence[Any]) -> None:
    """Refuses tensors with a tangent, which an operator would drop."""
    if forward_ad._current_level >= 0 and any(_has_tangent(arg) for arg in args):
        raise Error(
            f"`torch.ops.bsr_gemm.{name}` has no derivative in forward mode\n  help: `bsr_gemm.linear` and `sddmm`, "
            "and the layers, have a first one; of all else there is the gradient (`torch.func.vjp`, `jacrev`)"
        )


def _has_tangent(arg: Any) -> bool:
    if isinstance(arg, (list, tuple)):
        return any(_has_tangent(part) for part in arg)
    return isinstance(arg, Tensor) and forward_ad.unpack_dual(arg, level=0).tangent is not None


def _at(arg: Any, dim: Any, index: int) -> Any:
    """One element of a batch; all of what is not batched."""
    if isinstance(arg, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_at(part, of, index) for part, of in zip(arg, dim)]
    return arg if dim is None else arg.select(dim, index)
