"""The language of scores in words of PyTorch: which tree a function of it is, of values that are traced."""

from __future__ import annotations

import linecache
import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._native import Error
from ._score import _COMPARISONS, _FUNCTIONS, Tree

if TYPE_CHECKING:
    from ._traced import Trace, Traced

_INF: Tree = ("given", "inf")
TRUE: Tree = ("compare", "gt", ("number", 1), ("number", 0))
FALSE: Tree = ("compare", "gt", ("number", 0), ("number", 0))


class Leaf:
    """A value of every problem, head, and query or key: a tensor of these four dimensions, 1 where it does not depend on one;
    and the tree that says the same, where there is one of indices and numbers alone."""

    __slots__ = ("tensor", "tree")

    def __init__(self, tensor: Tensor, tree: Tree | None = None) -> None:
        self.tensor, self.tree = tensor, tree


def refused(fact: str, help: str) -> Error:
    """An error that names the line of the user's function."""
    own, of_torch = os.path.dirname(__file__), os.path.dirname(torch.__file__)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((own, of_torch)):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).strip()
    return Error(f"{fact}\n  --> {file}:{line}: {text}\n  help: {help}")


def words() -> str:
    return (
        "there are + - * /, % and // of integers by a number, comparisons, `torch.where`, "
        + ", ".join(sorted({*_FUNCTIONS} - {"fma", "select", "gelu_erf"}))
        + "; of `b`, `h` and one of `q_idx` and `kv_idx` all elementwise operations"
    )


def has_leaf(tree: Any) -> bool:
    return isinstance(tree, tuple) and (tree[:1] == ("leaf",) or any(map(has_leaf, tree)))


def literal(number: Any) -> Tree:
    number = float(number)
    if math.isnan(number):
        raise refused("a number is NaN", "a number, or minus infinity for a pair that does not count")
    tree: Tree = _INF if math.isinf(number) else ("number", abs(number))
    return ("negative", tree) if number < 0 else tree


def number_of(value: Traced) -> Tree:
    """A value as a number: 1 and 0 for what is true and false."""
    return _as_number(value.node) if value.dtype == torch.bool else value.node


def _as_number(tree: Tree) -> Tree:
    if tree == TRUE or tree == FALSE:
        return ("number", int(tree == TRUE))
    match tree:
        case ("leaf", leaf):
            own = None if leaf.tree is None else _as_number(leaf.tree)
            return ("leaf", Leaf(leaf.tensor.to(torch.int64), own))
        case ("and" | "or" as sign, first, second):
            return ("call", "min" if sign == "and" else "max", _as_number(first), _as_number(second))
        case ("not", part):
            return ("binary", "-", ("number", 1), _as_number(part))
    return ("choice", tree, ("number", 1), ("number", 0))


def test_of(value: Traced) -> Tree:
    """A value as a condition."""
    return value.node if value.dtype == torch.bool else not_zero(value.node)


def not_zero(tree: Tree) -> Tree:
    return ("compare", "ne", tree, ("number", 0))


def _truth(tree: Tree) -> Tree:
    """The tree of a leaf that is a constant."""
    return tree[1].tree if tree[0] == "leaf" and tree[1].tree in (TRUE, FALSE) else tree


def _joined(sign: str, first: Tree, second: Tree) -> Tree:
    first, second = _truth(first), _truth(second)
    neutral, absorbing = (TRUE, FALSE) if sign == "and" else (FALSE, TRUE)
    for one, other in ((first, second), (second, first)):
        if one is neutral:
            return other
        if one is absorbing:
            return one
    return (sign, first, second)


def _negated(tree: Tree) -> Tree:
    tree = _truth(tree)
    return FALSE if tree is TRUE else TRUE if tree is FALSE else ("not", tree)


def _chosen(test: Tree, first: Tree, second: Tree) -> Tree:
    """One of two numbers; the language chooses by one comparison."""
    test = _truth(test)
    if test is TRUE or test is FALSE:
        return first if test is TRUE else second
    match test:
        case ("leaf", leaf) if leaf.tree is not None:
            return _chosen(leaf.tree, first, second)
        case ("leaf", _) | ("compare", *_):
            return ("choice", test, first, second)
        case ("not", part):
            return _chosen(part, second, first)
        case ("and", a, b) if _is_short(second):
            return _chosen(a, _chosen(b, first, second), second)
        case ("or", a, b) if _is_short(first):
            return _chosen(a, first, _chosen(b, first, second))
    return ("choice", ("compare", "gt", _as_number(test), ("number", 0)), first, second)


def _is_short(tree: Tree) -> bool:
    return tree[0] in ("number", "given", "leaf") or (tree[0] == "negative" and _is_short(tree[1]))


def _choice(trace: Trace, test: Traced, first: Traced, second: Traced) -> Tree:
    if first.dtype == second.dtype == torch.bool:
        condition = test_of(test)
        sides = _joined("and", condition, first.node), _joined("and", _negated(condition), second.node)
        return _joined("or", *sides)
    return _chosen(test_of(test), number_of(first), number_of(second))


def _plain(tree: Tree) -> Any:
    """The number that a tree is, if it is one."""
    tree = tree[1].tree if tree[0] == "leaf" and tree[1].tree is not None else tree
    if tree[0] == "negative":
        number = _plain(tree[1])
        return None if number is None else -number
    return tree[1] if tree[0] == "number" else None


def _divisor(x: Traced, y: Traced, sign: str) -> int:
    number = _plain(number_of(y))
    if x.dtype.is_floating_point or y.dtype.is_floating_point or number is None or number <= 0:
        raise refused(
            f"`{sign}` of a value that depends on the score, or on query and key at once, by something that is no positive integer",
            f"integers, `(q_idx - kv_idx) {sign} 4`, or `{sign}` of `q_idx` and of `kv_idx` alone",
        )
    return int(number)


def _remainder(trace: Trace, tree: Tree, n: int) -> Tree:
    """The remainder of an integer, from those of its parts."""

    def of(part: Tree) -> Tree:
        return _remainder(trace, part, n)

    number = _plain(tree)
    if number is not None:
        return ("number", number % n)
    match tree:
        case ("leaf", leaf):
            return ("leaf", Leaf(leaf.tensor % n))
        case ("negative", part):
            return of(("binary", "-", ("number", 0), part))
        case ("binary", "+", first, second):
            total = ("binary", "+", of(first), of(second))
            return ("choice", ("compare", "ge", total, ("number", n)), ("binary", "-", total, ("number", n)), total)
        case ("binary", "-", first, second):
            total = ("binary", "-", of(first), of(second))
            return ("choice", ("compare", "lt", total, ("number", 0)), ("binary", "+", total, ("number", n)), total)
        case ("choice", test, first, second):
            return ("choice", test, of(first), of(second))
        case ("call", "abs", part):
            return _chosen(("compare", "ge", part, ("number", 0)), of(part), of(("negative", part)))
        case ("call", "min" | "max" as name, first, second):
            less = ("compare", "le", first, second)
            return _chosen(less, *(of(side) for side in ((first, second) if name == "min" else (second, first))))
    raise refused(
        f"`% {n}` or `// {n}` of a product of values that depend on query and key",
        "of sums and differences, or of `q_idx` and of `kv_idx` alone",
    )


def _floor_divided(trace: Trace, x: Traced, y: Traced, rounding_mode: str = "floor") -> Tree:
    n = _divisor(x, y, "//")
    if rounding_mode != "floor":
        raise refused(f"`rounding_mode={rounding_mode!r}`", "`//`")
    # Exact: a multiple of n is divided.
    rest = ("binary", "-", number_of(x), _remainder(trace, number_of(x), n))
    return ("binary", "/", rest, ("number", n))


def _divided(trace: Trace, x: Traced, y: Traced, rounding_mode: str | None = None) -> Tree:
    if rounding_mode is not None:
        return _floor_divided(trace, x, y, rounding_mode)
    return ("binary", "/", number_of(x), number_of(y))


def _power(trace: Trace, x: Traced, y: Traced) -> Tree:
    base, exponent = _plain(number_of(x)), _plain(number_of(y))
    if exponent == 0.5:
        return ("call", "sqrt", number_of(x))
    if exponent is not None and exponent % 1 == 0 and 1 <= abs(exponent) <= 8:
        tree = number_of(x)
        for _ in range(int(abs(exponent)) - 1):
            tree = ("binary", "*", tree, number_of(x))
        return tree if exponent > 0 else ("binary", "/", ("number", 1), tree)
    if base is not None and base > 0:
        return ("call", "exp", ("binary", "*", number_of(y), literal(math.log(base))))
    raise refused(
        "a power of neither a positive number nor an integer exponent up to 8",
        "`x * x`, or `torch.exp(y * torch.log(x))`",
    )


def _limited(trace: Trace, x: Traced, low: Traced | None = None, high: Traced | None = None) -> Tree:
    tree = number_of(x)
    tree = tree if low is None else ("call", "max", tree, number_of(low))
    return tree if high is None else ("call", "min", tree, number_of(high))


def _binary(sign: str) -> Callable:
    return lambda trace, x, y, alpha=1: (
        "binary",
        sign,
        number_of(x),
        number_of(y) if alpha == 1 else ("binary", "*", number_of(y), literal(alpha)),
    )


def _reversed(rule: Callable) -> Callable:
    return lambda trace, x, y, **named: rule(trace, y, x, **named)


def _logical(sign: str) -> Callable:
    def rule(trace: Trace, x: Traced, y: Traced) -> Tree:
        if x.dtype != torch.bool or y.dtype != torch.bool:
            raise refused(
                "a bitwise operation of integers that depend on query and key at once", "bits of one of them alone"
            )
        return _joined(sign, x.node, y.node)

    return rule


def _different(trace: Trace, x: Traced, y: Traced) -> Tree:
    if x.dtype != torch.bool or y.dtype != torch.bool:
        raise refused("`^` of integers that depend on query and key at once", "bits of one of them alone")
    return ("compare", "ne", number_of(x), number_of(y))


def _not(trace: Trace, x: Traced) -> Tree:
    if x.dtype != torch.bool:
        raise refused("`~` of a number", "of a condition")
    return _negated(x.node)


def _called(name: str) -> Callable:
    return lambda trace, *values, inplace=False: ("call", name, *map(number_of, values))


def _scaled(name: str, before: float = 1.0, after: float = 1.0) -> Callable:
    def rule(trace: Trace, x: Traced) -> Tree:
        inner = number_of(x) if before == 1.0 else ("binary", "*", number_of(x), literal(before))
        outer: Tree = ("call", name, inner)
        return outer if after == 1.0 else ("binary", "*", outer, literal(after))

    return rule


def _gelu(trace: Trace, x: Traced, approximate: str = "none") -> Tree:
    return ("call", "gelu" if approximate == "tanh" else "gelu_erf", number_of(x))


def _cast(trace: Trace, x: Traced, *how: Any, **named: Any) -> Tree:
    """A value in another type: ``x.to(torch.float32)``, ``x.float()``."""
    kind = next((part for part in (*how, *named.values()) if isinstance(part, torch.dtype)), None)
    kind = next((part.dtype for part in how if isinstance(part, Tensor)), kind)
    if kind is None or kind == x.dtype:
        return x.node
    if kind == torch.bool:
        return test_of(x)
    if x.dtype.is_floating_point and not kind.is_floating_point:
        raise refused(
            "a number that depends on the score, or on query and key at once, becomes an integer",
            "`torch.where`, or `//`",
        )
    narrow = {torch.float16: "f16", torch.bfloat16: "bf16"}.get(kind)
    return number_of(x) if narrow is None else ("cast", narrow, number_of(x))


def _to(kind: torch.dtype) -> Callable:
    return lambda trace, x: _cast(trace, x, kind)


def _same(trace: Trace, x: Traced, **_: Any) -> Tree:
    return x.node


def _sign(trace: Trace, x: Traced) -> Tree:
    zero, x_ = ("number", 0), number_of(x)
    below = ("choice", ("compare", "lt", x_, zero), ("negative", ("number", 1)), zero)
    return ("choice", ("compare", "gt", x_, zero), ("number", 1), below)


RULES: dict[str, Callable] = {
    **{name: _binary("+") for name in ("add", "radd")},
    **{name: _binary("-") for name in ("sub", "subtract")},
    "rsub": _reversed(_binary("-")),
    **{name: _binary("*") for name in ("mul", "multiply", "rmul")},
    **{name: _divided for name in ("div", "divide", "truediv", "true_divide")},
    **{name: _reversed(_divided) for name in ("rdiv", "rtruediv")},
    **{name: _floor_divided for name in ("floordiv", "floor_divide")},
    **{name: lambda t, x, y: _remainder(t, number_of(x), _divisor(x, y, "%")) for name in ("mod", "remainder")},
    **{name: _power for name in ("pow", "float_power")},
    "rpow": _reversed(_power),
    **{
        name: (lambda trace, x, y, word=word: ("compare", word, number_of(x), number_of(y)))
        for word in _COMPARISONS.values()
        for name in (
            word,
            {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "ne": "not_equal"}.get(
                word, word
            ),
        )
    },
    **{name: _logical("and") for name in ("and", "rand", "bitwise_and", "logical_and")},
    **{name: _logical("or") for name in ("or", "ror", "bitwise_or", "logical_or")},
    **{name: _different for name in ("xor", "rxor", "bitwise_xor", "logical_xor")},
    **{name: _not for name in ("invert", "bitwise_not", "logical_not")},
    **{name: lambda trace, x: ("negative", number_of(x)) for name in ("neg", "negative")},
    **{name: _called("min") for name in ("minimum", "min")},
    **{name: _called("max") for name in ("maximum", "max")},
    **{name: _called("abs") for name in ("abs", "absolute")},
    **{name: _limited for name in ("clamp", "clip")},
    "clamp_min": _limited,
    "clamp_max": lambda trace, x, high: _limited(trace, x, None, high),
    "where": _choice,
    "masked_fill": lambda trace, x, mask, value: _choice(trace, mask, value, x),
    **{name: _called(name) for name in "exp log sqrt rsqrt sin cos floor tanh sigmoid relu silu".split()},
    "exp2": _scaled("exp", before=math.log(2)),
    "log2": _scaled("log", after=1 / math.log(2)),
    "log10": _scaled("log", after=1 / math.log(10)),
    "log1p": lambda trace, x: ("call", "log", ("binary", "+", ("number", 1), number_of(x))),
    "expm1": lambda trace, x: ("binary", "-", ("call", "exp", number_of(x)), ("number", 1)),
    "square": lambda trace, x: ("binary", "*", number_of(x), number_of(x)),
    "reciprocal": lambda trace, x: ("binary", "/", ("number", 1), number_of(x)),
    "gelu": _gelu,
    "sign": _sign,
    **{name: _cast for name in ("to", "type", "type_as")},
    "float": _to(torch.float32),
    "double": _to(torch.float64),
    "half": _to(torch.float16),
    "bfloat16": _to(torch.bfloat16),
    **{name: _to(torch.int64) for name in ("int", "long")},
    "bool": _to(torch.bool),
    **{name: _same for name in ("clone", "contiguous", "detach")},
}
#: What PyTorch computes of one index; the rules above are of those, too.
ELEMENTWISE = frozenset(RULES) | frozenset(
    "lshift rlshift rshift rrshift bitwise_left_shift bitwise_right_shift rfloordiv rmod fmod trunc round ceil frac "
    "tan asin acos atan atan2 sinh cosh erf logaddexp softplus hypot bucketize isin gcd lcm "
    "isinf isnan isfinite logit log_sigmoid logsigmoid".split()
)
#: What is said in the language where all operands can be: it is exact there, and blocks are left out by it.
SIMPLE = frozenset(
    "add radd sub subtract rsub mul multiply rmul neg negative abs absolute minimum maximum where "
    "lt le gt ge eq ne less less_equal greater greater_equal not_equal clone contiguous detach".split()
)
LOGICAL = frozenset("and rand or ror invert bitwise_and logical_and bitwise_or logical_or logical_not".split())
KEPT = ("to", "type", "type_as", "bucketize", "isin")
CONSTANTS = ("new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like")
OF_PYTHON = (
    Tensor.__bool__,
    Tensor.__int__,
    Tensor.__float__,
    Tensor.__index__,
    Tensor.item,
    Tensor.__len__,
    Tensor.__iter__,
    Tensor.tolist,
)
