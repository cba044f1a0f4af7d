"""Conditions of masks: which pairs of a query and a key count, in the language of scores.

A condition is a comparison, or several that are joined by ``&&``, ``||`` and ``!``: ``i >= j && i - j < 128``, or a closure
with parameters, ``|a: Rows<f32>, b: Cols<f32>| a == b``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._native import Error
from ._patterns import grid_of
from ._score import NotRead, Reader, Score, Tree, score_of

#: A query attends to keys up to itself.
CAUSAL = "i >= j"

Parameter = tuple[str, str, str]
#: The least and the greatest values in each block.
Range = tuple[Any, Any]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@dataclass(frozen=True)
class Condition:
    """Its parameters (name, kind, element type) and its tree."""

    parameters: tuple[Parameter, ...]
    tree: Tree

    @property
    def text(self) -> str:
        """The condition as text that can be parsed again."""
        return (f"|{_listed(self.parameters)}| " if self.parameters else "") + _test(self.tree)

    @property
    def is_of_places(self) -> bool:
        """Whether it depends only on the numbers of query and key, so that the host knows where it holds."""
        return _names(self.tree) <= {"i", "j", "inf"}

    def joined(self, sign: str, other: Condition) -> Condition:
        """Both conditions (``and``), or either one (``or``)."""
        if self == other:
            return self
        return Condition(_united(self.parameters, other.parameters), (sign, self.tree, other.tree))

    def in_blocks(self, sizes: tuple[int, int], block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Rows x columns of blocks: where it surely holds for all pairs, and where it surely holds for none."""
        shape = grid_of(sizes, block)
        first = [np.arange(count, dtype=np.float64) * side for count, side in zip(shape, block)]
        last = [np.minimum(start + side, size) - 1 for start, side, size in zip(first, block, sizes)]
        ranges = {"i": (first[0][:, None], last[0][:, None]), "j": (first[1][None, :], last[1][None, :])}
        with np.errstate(invalid="ignore"):
            holds, fails = _truth(self.tree, ranges)
        return np.broadcast_to(holds, shape), np.broadcast_to(fails, shape)


@functools.lru_cache(maxsize=1024)
def condition_of(text: str) -> Condition:
    """A condition in text."""
    try:
        found = Condition(*Reader(text).condition())
    except NotRead as error:
        raise Error(
            f"the mask `{text}` is not read: {error}\n"
            "  help: comparisons, joined by `&&`, `||` and `!`: `i >= j && i - j < 128`, or "
            "`|a: Rows<f32>, b: Cols<f32>| a == b`"
        ) from None
    if "s" in _names(found.tree) or "scale" in _names(found.tree):
        raise Error(
            f"the mask `{text}` reads the product of a query and a key\n"
            "  help: a mask is of i, j, head, batch and parameters; what depends on `s` is a `score`"
        )
    return found


def of_score(score: Score) -> Condition | None:
    """The condition of a score that is the scaled product or minus infinity; None of every other one."""
    if not score.is_mask or score.tree is None or score.tree[0] != "choice":
        return None
    return Condition(score.parameters, _attended(score.tree))


def closure_of(condition: Condition | None, score: Score | None) -> str | None:
    """The closure of a score, minus infinity where the condition does not hold; without a score, of the scaled product."""
    if condition is None:
        return None if score is None else score.closure
    body, parameters = "s * scale", condition.parameters
    if score is not None:
        if score.tree is None:
            raise Error(f"the score `{score.closure}` was not read: {score.why}\n  help: write the mask into it")
        body, parameters = score.body, _united(score.parameters, parameters)
    return f"|{_listed(parameters)}| {_chosen(condition.tree, body)}"


def parameters_of(closure: str) -> tuple[Parameter, ...]:
    """The parameters of a closure."""
    return score_of(closure).parameters


@functools.lru_cache(maxsize=1024)
def by_head(closure: str, names: tuple[str, ...]) -> str:
    """The same closure, where these numbers are vectors by head."""
    read = score_of(closure)
    parameters = [(name, "Heads", "f32") if name in names else (name, *what) for name, *what in read.parameters]
    return f"|{_listed(parameters)}| {read.body}"


def _listed(parameters: Iterable[Parameter]) -> str:
    return ", ".join(f"{name}: {kind if kind == 'f32' else f'{kind}<{element}>'}" for name, kind, element in parameters)


def _united(first: tuple[Parameter, ...], second: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    of = {parameter[0]: parameter for parameter in first}
    for parameter in second:
        if of.setdefault(parameter[0], parameter) != parameter:
            raise Error(
                f"`{_listed([of[parameter[0]]])}` and `{_listed([parameter])}` are two parameters of one name\n"
                "  help: rename one of them"
            )
    return tuple(of.values())


def _names(tree: Any) -> set[str]:
    if not isinstance(tree, tuple):
        return set()
    if tree[0] == "given":
        return {tree[1]}
    return set().union(*(_names(part) for part in tree[1:]))


def _attended(tree: Tree) -> Tree:
    """Where a score of a mask is the scaled product."""
    _, test, first, second = tree
    ways = []
    for condition, side in ((test, first), (("not", test), second)):
        if side[0] == "choice":
            ways.append(("and", condition, _attended(side)))
        elif side[0] == "binary":
            ways.append(condition)
    return ways[0] if len(ways) == 1 else ("or", *ways)


def _chosen(tree: Tree, body: str) -> str:
    """The score's text where a condition holds, and minus infinity elsewhere."""
    if tree[0] == "and":
        return _chosen(tree[1], _chosen(tree[2], body))
    if tree[0] == "compare":
        return f"if {_test(tree)} {{ {body} }} else {{ -inf }}"
    if tree[0] == "not" and tree[1][0] == "compare":
        return f"if {_test(tree[1])} {{ -inf }} else {{ {body} }}"
    # The language of scores has only comparisons: truth is a number there.
    return f"if {_number(tree)} > 0.0 {{ {body} }} else {{ -inf }}"


def _number(tree: Tree) -> str:
    """The text of 1 where a condition holds, and of 0 elsewhere."""
    match tree:
        case ("and" | "or" as sign, first, second):
            return f"{'min' if sign == 'and' else 'max'}({_number(first)}, {_number(second)})"
        case ("not", part):
            return f"(1.0 - {_number(part)})"
    return f"select({_test(tree)}, 1.0, 0.0)"


def _test(tree: Tree) -> str:
    match tree:
        case ("and" | "or" as sign, first, second):
            sides = [f"({_test(side)})" if side[0] in ("and", "or") else _test(side) for side in (first, second)]
            return f"{sides[0]} {'&&' if sign == 'and' else '||'} {sides[1]}"
        case ("not", part):
            return f"!({_test(part)})"
        case ("compare", name, first, second):
            return f"{_text(first)} {_SIGNS[name]} {_text(second)}"
    raise AssertionError(f"{tree[0]} is no condition")


def _text(tree: Tree, inner: bool = False) -> str:
    match tree:
        case ("number", number):
            return repr(number) if number % 1 or number >= 1e16 else str(int(number))
        case ("given", name):
            return name
        case ("negative", part):
            return f"-{_text(part, True)}"
        case ("binary", sign, first, second):
            text = f"{_text(first, True)} {sign} {_text(second, True)}"
            return f"({text})" if inner else text
        case ("cast", kind, part):
            return f"({_text(part, True)} as {kind})"
        case ("choice", test, first, second):
            return f"select({_test(test)}, {_text(first)}, {_text(second)})"
        case ("call", name, *arguments):
            return f"{name}({', '.join(_text(argument) for argument in arguments)})"
    raise AssertionError(f"{tree[0]} is no number")


def _truth(tree: Tree, ranges: dict[str, Range]) -> tuple[Any, Any]:
    """Where a condition holds for every value of the ranges, and where for none."""
    if tree[0] == "not":
        return _truth(tree[1], ranges)[::-1]
    if tree[0] in ("and", "or"):
        (holds, fails), (holds_too, fails_too) = (_truth(part, ranges) for part in tree[1:])
        return (holds & holds_too, fails | fails_too) if tree[0] == "and" else (holds | holds_too, fails & fails_too)
    _, name, first, second = tree
    a, b = _range(first, ranges), _range(second, ranges)
    if name in ("gt", "ge"):
        a, b, name = b, a, {"gt": "lt", "ge": "le"}[name]
    apart = (a[1] < b[0]) | (b[1] < a[0])
    equal = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    if name == "lt":
        return a[1] < b[0], a[0] >= b[1]
    if name == "le":
        return a[1] <= b[0], a[0] > b[1]
    return (equal, apart) if name == "eq" else (apart, equal)


def _range(tree: Tree, ranges: dict[str, Range]) -> Range:
    """The least and the greatest value of an expression; of one that is not known here, of all numbers."""
    match tree:
        case ("number", number):
            return np.float64(number), np.float64(number)
        case ("given", name) if name in ranges:
            return ranges[name]
        case ("negative", part):
            least, most = _range(part, ranges)
            return -most, -least
        case ("binary", "+" | "-" | "*" as sign, first, second):
            a, b = _range(first, ranges), _range(second, ranges)
            if sign == "+":
                return a[0] + b[0], a[1] + b[1]
            if sign == "-":
                return a[0] - b[1], a[1] - b[0]
            corners = [x * y for x in a for y in b]
            return functools.reduce(np.minimum, corners), functools.reduce(np.maximum, corners)
        case ("call", "abs", part):
            least, most = _range(part, ranges)
            return np.maximum(np.maximum(least, -most), 0.0), np.maximum(-least, most)
        case ("call", "floor", part):
            return tuple(map(np.floor, _range(part, ranges)))
        case ("call", "min" | "max" as name, first, second):
            a, b = _range(first, ranges), _range(second, ranges)
            of = np.minimum if name == "min" else np.maximum
            return of(a[0], b[0]), of(a[1], b[1])
    return np.float64(-np.inf), np.float64(np.inf)
