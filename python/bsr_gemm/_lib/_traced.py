"""What a function of FlexAttention computes, found by calling it once with traced values.

A value that depends on queries alone, or on keys alone, is computed by PyTorch for all of them: it becomes a vector. What mixes
both, or depends on the score, becomes a tree of the language of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ._native import Error
from ._score import Tree
from ._traced_words import (
    CONSTANTS,
    ELEMENTWISE,
    FALSE,
    KEPT,
    LOGICAL,
    OF_PYTHON,
    RULES,
    SIMPLE,
    TRUE,
    Leaf,
    has_leaf,
    literal,
    not_zero,
    number_of,
    refused,
    test_of,
    words,
)

#: The dimensions of values: problems, heads, queries, keys.
Sizes = tuple[int, int, int, int]

#: The greatest integer up to which f32 has all.
EXACT = 1 << 24

_SCORE: Tree = ("binary", "*", ("given", "s"), ("given", "scale"))


class Traced(Tensor):
    """A scalar that a function computes with: a tree whose leaves may be ``("leaf", Leaf)``.

    ``rest`` are a tensor, and the indices of its first dimensions, where a function has not yet given the others.
    """

    trace: Trace
    node: Tree
    rest: tuple[Tensor, tuple] | None

    @staticmethod
    def of(trace: Trace, node: Tree, dtype: torch.dtype, rest: Any = None) -> Traced:
        made = Tensor._make_wrapper_subclass(Traced, (), dtype=dtype, device=trace.device)
        made.trace, made.node, made.rest = trace, node, rest
        return made

    def copied(self) -> Traced:
        """The same value, to be changed in place."""
        return Traced.of(self.trace, self.node, self.dtype, self.rest)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "dim", "size", "is_floating_point", "is_complex", "ndimension", "numel"):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if name == "__set__":
            raise refused("a traced value is assigned to", "compute another value")
        traced = next(value for value in (*args, *(kwargs or {}).values(), *_parts(args)) if isinstance(value, Traced))
        return traced.trace.apply(func, name, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise refused(
            f"`{func}` is called beneath PyTorch's functions", "a function of PyTorch that is called by its name"
        )

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return "a traced value"

    __format__ = object.__format__


class _Indexing(TorchFunctionMode):
    """Sees tensors that are indexed with traced values, of which PyTorch does not tell these."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func is Tensor.__getitem__ and any(isinstance(part, Traced) for part in _parts(args[1:])):
            return Traced.__torch_function__(func, types, args)
        return func(*args, **(kwargs or {}))


def _parts(args: tuple) -> tuple:
    """What is in an argument that is a tuple or a list."""
    return tuple(part for value in args for part in (value if isinstance(value, (tuple, list)) else (value,)))


class Trace:
    """The functions of one call, and the vectors that their trees read."""

    def __init__(self, sizes: Sizes, device: torch.device, in_graph: bool = False) -> None:
        self.sizes, self.device = sizes, device
        #: In a graph of torch.compile the elements of tensors are not known.
        self.in_graph = in_graph
        self.vectors: dict[str, Tensor] = {}
        self.parameters: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._known: dict[tuple, tuple[Any, Traced]] = {}
        places = []
        for at, name in enumerate(("batch", "head", "i", "j")):
            shape = [sizes[at] if dim == at else 1 for dim in range(4)]
            index = torch.arange(sizes[at], device=device).reshape(shape)
            places.append(self._leaf(Leaf(index, ("given", name) if sizes[at] > 1 else ("number", 0))))
        self.places = tuple(places)

    def condition(self, function: Callable) -> Tree:
        """The tree of a ``mask_mod``."""
        return self.named(test_of(self.call(function, "mask_mod", *self.places)))

    def score(self, function: Callable, dtype: torch.dtype) -> Tree:
        """The tree of a ``score_mod``, whose score is of ``dtype``."""
        score = Traced.of(self, _SCORE, dtype)
        return self.named(number_of(self.call(function, "score_mod", score, *self.places)))

    def call(self, function: Callable, what: str, *values: Traced) -> Traced:
        with _Indexing():
            found = function(*(value.copied() for value in values))
        if not isinstance(found, (Tensor, bool, int, float)):
            raise Error(f"the {what} returns a {type(found).__name__}\n  help: a value for one query and one key")
        return self.operand(found)

    # Values.

    def _leaf(self, leaf: Leaf) -> Traced:
        return Traced.of(self, ("leaf", leaf), leaf.tensor.dtype)

    def constant(self, number: Any, dtype: torch.dtype | None = None) -> Traced:
        tensor = torch.full((1, 1, 1, 1), number, dtype=dtype, device=self.device)
        tree = (TRUE if number else FALSE) if tensor.dtype == torch.bool else literal(number)
        return self._leaf(Leaf(tensor, tree))

    def operand(self, value: Any) -> Traced:
        """A value as a traced one."""
        if isinstance(value, Traced):
            if value.rest is not None:
                tensor, indices = value.rest
                raise refused(
                    f"a tensor of {tensor.dim()} dimensions is used with {len(indices)} of its indices",
                    "an index for each dimension, `t[b, q_idx]`",
                )
            return value
        if not isinstance(value, Tensor):
            return self.constant(value)
        if value.numel() != 1:
            raise refused(
                f"a tensor of {' x '.join(map(str, value.shape))} is used where one number is",
                "index it by `b`, `h`, and `q_idx` or `kv_idx`",
            )
        if value.device.type == "cpu" and not value.requires_grad and not self.in_graph:
            return self.constant(value.item(), value.dtype)
        return self._leaf(Leaf(value.reshape(1, 1, 1, 1).to(self.device)))

    # Operations.

    def apply(self, func: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """The result of a function of PyTorch."""
        name = name.strip("_") if name.startswith("__") else name
        if name == "getitem":
            return self._picked(args[0], args[1])
        if name in ("bool", "int", "float", "index", "item", "len", "iter", "tolist") and func in OF_PYTHON:
            raise refused(
                f"`{name}` reads a value that is known for each query and key only",
                "`torch.where(condition, a, b)` in place of `if`, `&` and `|` in place of `and` and `or`",
            )
        if name in CONSTANTS:
            return self._constant(name, args, kwargs)
        if name.endswith("_") and name[:-1] in ELEMENTWISE:
            found = self.apply(getattr(torch, name[:-1]), name[:-1], args, kwargs)
            args[0].node = found.node
            return args[0]
        if name not in ELEMENTWISE:
            raise refused(f"`{name}` is no operation on one score", words())
        key = (name, *map(_identity, args), *((word, _identity(value)) for word, value in sorted(kwargs.items())))
        known = self._known.get(key)
        if known is None:
            # What it is known by lives as long.
            nodes = [value.node for value in (*args, *kwargs.values()) if isinstance(value, Traced)]
            known = self._known[key] = (nodes, args, kwargs), self._computed(func, name, args, kwargs)
        return known[1].copied()

    def _computed(self, func: Any, name: str, args: tuple, kwargs: dict) -> Traced:
        named = dict(kwargs)
        args = (*args, *(named.pop(word) for word in ("other", "min", "max", "exponent", "value") if word in named))
        if name in ("clamp", "clip") and len(args) == 2 and "max" in kwargs:
            args = (args[0], None, args[1])
        kept = name in KEPT
        operands = [value if value is None or (at and kept) else self.operand(value) for at, value in enumerate(args)]
        traced = [value for value in operands if isinstance(value, Traced)]
        leaves = [value.node[1] for value in traced if value.node[0] == "leaf"]

        def result(of: Callable[[Traced], Any]) -> Any:
            # Numbers are left as they were: they do not promote types.
            values = [
                of(x) if isinstance(x, Traced) and isinstance(value, Tensor) else value
                for x, value in zip(operands, args)
            ]
            if name in ("clamp", "clip"):
                return torch.clamp(
                    values[0], **{word: x for word, x in zip(("min", "max"), values[1:]) if x is not None}
                )
            return func(*values, **named)

        if len(leaves) == len(traced) and not self._is_mixed(leaves):
            tensor = result(lambda value: value.node[1].tensor)
            tree = None
            is_simple = name in SIMPLE or (name in LOGICAL and tensor.dtype == torch.bool)
            if is_simple and all(leaf.tree is not None for leaf in leaves):
                own = [Traced.of(self, x.node[1].tree, x.dtype) if isinstance(x, Traced) else x for x in operands]
                tree = RULES[name](self, *own, **named)
                if has_leaf(tree) or not self._is_exact(tree, tensor.dtype):
                    tree = None
            return self._leaf(Leaf(tensor, tree))
        if name not in RULES:
            raise refused(
                f"`{name}` of a value that depends on the score, or on query and key at once, has no word in the language of scores",
                words(),
            )
        dtype = result(lambda value: torch.ones(1, dtype=value.dtype)).dtype
        tree = RULES[name](self, *operands, **named)
        if not self._is_exact(tree, dtype):
            raise refused(
                f"integers of query and key are up to {self._most(tree)}, and f32 holds those up to {EXACT}",
                "floating-point numbers, `q_idx.float() * kv_idx`, or smaller integers",
            )
        return Traced.of(self, tree, dtype)

    def _is_exact(self, tree: Tree, dtype: torch.dtype) -> bool:
        """Whether a kernel, which computes in f32, holds what a tree of integers is."""
        return dtype == torch.bool or dtype.is_floating_point or self._most(tree) <= EXACT

    def _most(self, tree: Any) -> int:
        """What integers of a tree of indices are not beyond; vectors are looked at where they are given."""
        match tree:
            case ("number", number):
                return math.ceil(abs(number))
            case ("leaf", leaf):
                return 0 if leaf.tree is None else self._most(leaf.tree)
            case ("given", "batch" | "head" | "i" | "j" as name):
                return self.sizes[("batch", "head", "i", "j").index(name)] - 1
            case ("binary", sign, first, second):
                a, b = self._most(first), self._most(second)
                return a * b if sign == "*" else a + b if sign in "+-" else a
        return max(map(self._most, tree), default=0) if isinstance(tree, tuple) else 0

    def _is_mixed(self, leaves: list[Leaf]) -> bool:
        return all(any(leaf.tensor.shape[dim] > 1 for leaf in leaves) for dim in (2, 3))

    def _constant(self, name: str, args: tuple, kwargs: dict) -> Traced:
        """``new_ones`` and its like."""
        of, *further = args
        number = {"ones": 1, "zeros": 0}.get(name.removeprefix("new_").removesuffix("_like"))
        if number is None:
            number = kwargs["fill_value"] if "fill_value" in kwargs else further[-1]
        shape = kwargs.get("size", further[0] if further and name.startswith("new_") else ())
        if tuple(shape if isinstance(shape, (tuple, list, torch.Size)) else (shape,)) not in ((), (1,)):
            raise refused(f"`{name}` makes a tensor of {shape}", "a value for one query and one key, of shape `()`")
        dtype = kwargs.get("dtype") or of.dtype
        return self.constant(bool(number) if dtype == torch.bool else number, dtype)

    def _picked(self, tensor: Tensor, index: Any) -> Traced:
        """Elements of a tensor."""
        before: tuple = ()
        if isinstance(tensor, Traced):
            if tensor.rest is None:
                raise refused("a traced value is indexed, which has no dimensions", "index a tensor by it")
            tensor, before = tensor.rest
        new = index if isinstance(index, tuple) else (index,)
        for part in new:
            if isinstance(part, (slice, type(None), type(...))) or (isinstance(part, Tensor) and part.numel() != 1):
                raise refused(f"a tensor is indexed by {part!r}", "an index for each dimension, `t[b, q_idx]`")
        indices = (*before, *map(self.operand, new))
        if len(indices) > tensor.dim():
            raise refused(f"a tensor of {tensor.dim()} dimensions has {len(indices)} indices", "one for each")
        leaves = [value.node[1] for value in indices if value.node[0] == "leaf"]
        if len(leaves) < len(indices) or self._is_mixed(leaves):
            raise refused(
                f"a tensor of {' x '.join(map(str, tensor.shape))} is read at a place that depends on query and key at once",
                "a formula of them (`0.1 * (q_idx - kv_idx)`), or tensors that are indexed by one of them",
            )
        if len(indices) < tensor.dim():
            return Traced.of(self, ("number", 0), tensor.dtype, (tensor, indices))
        key = ("getitem", id(tensor), *(id(leaf) for leaf in leaves))
        known = self._known.get(key)
        if known is None:
            found = tensor[tuple(leaf.tensor for leaf in leaves)]
            known = self._known[key] = (tensor, leaves), self._leaf(Leaf(found))
        return known[1].copied()

    # Vectors.

    def named(self, tree: Tree) -> Tree:
        """A tree without leaves: those that have no tree are vectors from here on."""
        if not isinstance(tree, tuple):
            return tree
        if tree[0] != "leaf":
            return tuple(self.named(part) for part in tree)
        leaf = tree[1]
        if leaf.tree is not None:
            return leaf.tree
        name = self._names.get(id(leaf))
        if name is None:
            name = self._names[id(leaf)] = self._vector(leaf.tensor)
        return not_zero(("given", name)) if leaf.tensor.dtype == torch.bool else ("given", name)

    def _vector(self, tensor: Tensor) -> str:
        queries, keys = (tensor.shape[dim] > 1 for dim in (2, 3))
        kind = "Cols" if keys else "Rows" if queries else "Heads"
        name = f"{'k' if keys else 'q' if queries else 'h'}{len(self.vectors)}"
        self.vectors[name] = tensor[..., 0, 0] if kind == "Heads" else tensor[..., 0, :] if keys else tensor[..., 0]
        self.parameters[name] = kind
        return name


def _identity(value: Any) -> Any:
    """What an argument is known by."""
    if isinstance(value, Traced):
        return id(value.node[1] if value.node[0] == "leaf" else value.node)
    return id(value) if isinstance(value, Tensor) else (type(value), repr(value))
