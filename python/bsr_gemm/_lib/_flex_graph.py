"""FlexAttention's call in a graph of ``torch.compile``.

What its functions compute is found while the graph is made: text, and a program of PyTorch that makes the vectors which the text
reads. The program becomes part of the graph, and the tensors that the functions capture its arguments, so that they may change and
have gradients. The lists of a ``BlockMask`` are read when the graph runs, by ``torch.ops.bsr_gemm.flex_attention``.
"""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import guard_scalar

from . import _attention_torch, _block_sparse, _flex, _torch
from ._attention import attention
from ._block_flags import of_lists
from ._calls import Call
from ._captured import _PLAIN, _is_constant, _names
from ._exact import exact
from ._native import Error
from ._patterns import grid_of

#: The programs of graphs, by the names that these have.
_programs = types.SimpleNamespace()
_numbers = itertools.count()


def attend(
    q: Tensor, k: Tensor, v: Tensor, score_mod: Callable | None, block_mask: Any, scale: float | None, wants_lse: bool
) -> Any:
    """The attention of FlexAttention's functions and lists; with ``wants_lse`` its LSE, too."""
    functions = (score_mod, None if block_mask is None else block_mask.mask_mod)
    tensors: list[Tensor] = []
    for function in functions:
        if function is not None:
            _capture(function, tensors)
    sizes = [guard_scalar(size) for size in (*q.shape[:3], k.shape[2])]
    found = _said(*functions, tuple(sizes), q.device, q.dtype)
    if isinstance(found, str):
        torch._dynamo.graph_break(msg=found)
        return _flex._attend(q, k, v, score_mod, block_mask, scale, wants_lse)
    program, score, condition, names = found
    vectors = [exact(vector, torch.float32) for vector in getattr(_programs, program)(None, *tensors)]
    if block_mask is None:
        return attention(q, k, v, score=score, numbers=dict(zip(names, vectors)), scale=scale, lse=wants_lse)
    lists = [block_mask.kv_num_blocks, block_mask.kv_indices]
    if block_mask.full_kv_num_blocks is not None:
        lists = [*lists, block_mask.full_kv_num_blocks, block_mask.full_kv_indices]
    q, k, v = _torch._cast(q.device.type, q, k, v)
    scale = 1.0 / math.sqrt(max(1, q.shape[-1])) if scale is None else float(scale)
    how = (list(block_mask.BLOCK_SIZE), condition, score, scale, vectors, list(names))
    out, lse = torch.ops.bsr_gemm.flex_attention(q, k, v, lists, *how)
    return (out, lse) if wants_lse else out


# What functions capture. PyTorch's compiler reads `_capture` and looks at what it finds, so that another number is another graph.


def _capture(value: Any, tensors: list[Tensor]) -> None:
    """Adds the tensors that a function reads, and functions that it calls, in the order of :func:`_with`."""
    if isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, (int, float)):
        guard_scalar(value)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _capture(part, tensors)
    # A function that the compiled one makes has no module yet: PyTorch's compiler breaks the graph here.
    elif isinstance(value, types.FunctionType) and "__builtins__" in value.__globals__ and not _is_of_torch(value):
        if value.__closure__ is not None:
            for cell in value.__closure__:
                _capture(cell.cell_contents, tensors)
        for name in _globals_of(value):
            _capture(value.__globals__[name], tensors)
        _capture(value.__defaults__, tensors)


def _with(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The same value, which reads other tensors in place of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    if type(value) in (tuple, list):
        return type(value)([_with(part, tensors) for part in value])
    if _is_fixed(value):
        return value
    if not isinstance(value, types.FunctionType):
        raise Error(
            f"a function of a flex_attention reads a {type(value).__name__}, whose changes torch.compile does not see\n"
            "  help: its tensors and numbers as variables of the function around, or of the module"
        )
    if _is_of_torch(value):
        return value
    cells = tuple([types.CellType(_with(cell.cell_contents, tensors)) for cell in value.__closure__ or ()])
    names = {name: _with(value.__globals__[name], tensors) for name in _globals_of(value)}
    defaults = _with(value.__defaults__, tensors)
    made = types.FunctionType(value.__code__, value.__globals__ | names, value.__name__, defaults, cells)
    # A dictionary is refused.
    made.__kwdefaults__ = _with(value.__kwdefaults__ or None, tensors)
    return made


def _globals_of(function: Any) -> tuple[str, ...]:
    """The names of what a function reads of its module, but for parts of PyTorch and of Python."""
    found = [name for name in sorted(_names(function.__code__)) if name in function.__globals__]
    return tuple(name for name in found if not _is_part(function.__globals__[name]))


def _is_part(value: Any) -> bool:
    return isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)) and _is_constant(value)


def _is_fixed(value: Any) -> bool:
    return isinstance(value, _PLAIN) or _is_part(value)


def _is_of_torch(function: Any) -> bool:
    return (function.__module__ or "").partition(".")[0] == "torch" and not function.__closure__


def _said(
    score_mod: Any, mask_mod: Any, sizes: tuple[int, int, int, int], device: torch.device, dtype: torch.dtype
) -> tuple[str, str | None, str | None, tuple[str, ...]] | str:
    """The name of the program that computes vectors of captured tensors, the score, the condition, and the vectors' names; why
    a graph has none of these where it does not."""
    try:
        return _made(score_mod, mask_mod, sizes, device, dtype)
    except Error as error:
        return str(error)


def _made(
    score_mod: Any, mask_mod: Any, sizes: tuple[int, int, int, int], device: torch.device, dtype: torch.dtype
) -> tuple[str, str | None, str | None, tuple[str, ...]]:
    tensors: list[Tensor] = []
    for function in (score_mod, mask_mod):
        _capture(function, tensors)
    said: list[_flex.Said] = []

    def program(*given: Tensor) -> list[Tensor]:
        left = iter(given)
        functions = [_with(function, left) for function in (score_mod, mask_mod)]
        kind = torch.float64 if dtype == torch.float64 else torch.float32
        said.append(_flex._trace(*functions, sizes, device, kind, in_graph=True))
        return list(said[0][2].values())

    made = make_fx(program)(*(tensor.detach() for tensor in tensors))
    made.graph.eliminate_dead_code()
    if any(node.op == "get_attr" for node in made.graph.nodes):
        raise Error(
            "a function of a flex_attention reads a tensor that torch.compile does not see\n"
            "  help: read it as a variable of the function around or of the module, and a number as one of Python"
        )
    name, text = f"program_{next(_numbers)}", made.graph.python_code("self")
    read = dict(text.globals)
    exec(text.src, read)
    setattr(_programs, name, read["forward"])
    score, condition, vectors = said[0]
    return name, score, condition, tuple(vectors)


for _constant in (_said, _globals_of, _is_of_torch):
    torch.compiler.assume_constant_result(_constant)


# The operator.

Lists = Sequence[Tensor]


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lists: Lists,
    block: Sequence[int],
    condition: str | None,
    score: str | None,
    scale: float,
    vectors: Sequence[Tensor],
    names: Sequence[str],
    compute: Callable[[Call], Any],
) -> Any:
    """What ``compute`` returns for a call under the mask of the lists."""
    _attention_torch._check(q, k, v)
    sizes, sides = (q.shape[2], k.shape[2]), (block[0], block[1])

    def flags() -> Tensor:
        # A block of both lists is partial.
        of_both = [(lists[at], lists[at + 1], kind) for at, kind in ((2, 1), (0, 2)) if at < len(lists)]
        stored = of_lists(of_both, grid_of(sizes, sides))
        return stored.bool() if condition is None else stored

    def run(mask: Any) -> Any:
        numbers = dict(zip(names, vectors))
        return compute(Call.of(q, k, v, mask, (False, None, score), numbers, scale, "bhsd", mask.block))

    return _block_sparse.under(q, sizes, sides, condition, flags, run)


def _fake(q, k, v, lists, block, condition, score, scale, vectors, names):
    _attention_torch._check(q, k, v)
    return _attention_torch._places(q, v, True)


def _forward(attend: Callable) -> Callable:
    def kernel(q, k, v, *how):
        def compute(call):
            return attend(q, k, v, None, call.key, call.closure, call.scale, call.numbers, True, call.vectors)

        return _attend(q, k, v, *how, compute)

    return kernel


def _gradient_fake(do, dlse, q, k, v, o, lse, lists, block, condition, score, scale, vectors, names, wanted):
    return [torch.empty_like(x) for x in (q, k, v, *(x for x, is_wanted in zip(vectors, wanted) if is_wanted))]


def _gradient(differentiate: Callable) -> Callable:
    def kernel(do, dlse, q, k, v, o, lse, lists, block, condition, score, scale, vectors, names, wanted):
        def compute(call):
            of_each = [wanted[names.index(name)] for name in call.names]
            how = (call.key, call.closure, call.scale, call.numbers, call.vectors, of_each)
            dq, dk, dv, *found = differentiate(do, dlse, q, k, v, o, lse, *how)
            by_name = dict(zip([name for name, is_wanted in zip(call.names, of_each) if is_wanted], found))
            given = [(name, x) for name, x, is_wanted in zip(names, vectors, wanted) if is_wanted]
            # What no block needs has no part in the result.
            return [
                dq,
                dk,
                dv,
                *(by_name[name].reshape(x.shape) if name in by_name else torch.zeros_like(x) for name, x in given),
            ]

        return _attend(q, k, v, lists, block, condition, score, scale, vectors, names, compute)

    return kernel


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, lists, *how, vectors, ctx.names = inputs
    ctx.how, ctx.lists, ctx.vectors = how, len(lists), len(vectors)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, *lists, *vectors)


def _backward(ctx: Any, do: Tensor | None, dlse: Tensor | None) -> tuple:
    q, k, v, o, lse, *rest = ctx.saved_tensors
    lists, vectors = rest[: ctx.lists], rest[ctx.lists :]
    wanted = list(ctx.needs_input_grad[8]) if vectors else []
    how = (lists, *ctx.how, vectors, ctx.names, wanted)
    found = _attention_torch.gradients_of("flex_attention", (do, dlse), (q, k, v, o, lse), how) or (None,) * 3
    each = iter(found[3:])
    of_vectors = [next(each, None) if is_wanted else None for is_wanted in wanted]
    # The gradients of a list of tensors are a list of as many; an empty list may be one.
    return *found[:3], [None] * len(lists), None, None, None, None, of_vectors, None if ctx.names else []


HOW = "Tensor[] lists, int[] block, str? condition, str? score, float scale, Tensor[] vectors, str[] names"
_attention_torch.declare(
    "flex_attention", HOW, (_fake, _gradient_fake), _forward, _gradient, of_lists=(_keep, _backward)
)
