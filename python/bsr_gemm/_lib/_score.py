"""Scores of attention as expressions of PyTorch: what their gradients need, and whether they only leave pairs out.

The reader reads the conditions of masks, too, which ``_conditions`` is about.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._native import Error

_TOKEN = re.compile(
    r"\s*(?:(\d[\d_]*(?:\.\d[\d_]*|\.(?![A-Za-z_]))?(?:[eE][+-]?\d+)?(?:f32)?)|([A-Za-z_]\w*)|(<=|>=|==|!=|&&|\|\||\S))"
)
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
#: The names that every score can use.
_NAMES = ("s", "i", "j", "head", "batch", "scale", "inf")

#: Parameters with an element for every query, key or head.
VECTORS = ("Rows", "Cols", "Heads")

Tree = tuple


class NotRead(Exception):
    """A score that this reader does not parse."""


class Score:
    """A score in text: its closure, the names of its numbers, and its tree where it was read."""

    def __init__(self, text: str) -> None:
        body = text.strip()
        self.closure = body if body.startswith("|") else f"|| {body}"
        self.tree: Tree | None
        #: The parameters: name, kind and element type; of numbers the kind is `f32`.
        self.parameters: tuple[tuple[str, str, str], ...] = ()
        try:
            self.parameters, self.tree = Reader(self.closure).closure()
            self.why = ""
        except NotRead as error:
            self.tree, self.why = None, str(error)

    @property
    def body(self) -> str:
        """The expression behind the parameters."""
        return self.closure[self.closure.index("|", 1) + 1 :].strip()

    @property
    def leaves_out(self) -> bool:
        """Whether some pairs may be minus infinity, so that the score selects pairs of a block."""
        return re.search(r"\binf\b", self.closure) is not None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the parameters that are numbers."""
        return tuple(name for name, kind, _ in self.parameters if kind == "f32")

    @property
    def vectors(self) -> tuple[tuple[str, str, str], ...]:
        """The parameters that are vectors."""
        return tuple(parameter for parameter in self.parameters if parameter[1] != "f32")

    @property
    def is_mask(self) -> bool:
        """Whether a score is the scaled product or minus infinity, so that whole blocks need none."""
        return self.tree is not None and _is_mask(self.tree)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The score of pairs, of tensors; a condition of a mask where ``values`` are those of one."""
        if self.tree is None:
            raise Error(
                f"the score `{self.closure}` has no gradient: {self.why}\n  help: call it under `torch.no_grad()`"
            )
        return _value(self.tree, values)


@functools.lru_cache(maxsize=1024)
def score_of(text: str) -> Score:
    """A score, read now or before."""
    return Score(text)


class Reader:
    """Parses scores in the language of epilogues; bound names are replaced by their values."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            assert match is not None, "every character but a space is a token"
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at = 0
        self.names: dict[str, Tree] = {name: ("given", name) for name in _NAMES}

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise NotRead(f"`{token or 'the end'}` where {f'`{expected}`' if expected else 'more'} is expected")
        self.at += 1
        return token

    def parameters(self) -> tuple[tuple[str, str, str], ...]:
        if self.peek() == "||":
            self.take()
            return ()
        parameters = []
        self.take("|")
        while self.peek() != "|":
            name = self.take()
            self.take(":")
            kind = element = self.take()
            if kind in VECTORS:
                self.take("<")
                element = self.take()
                self.take(">")
            elif kind != "f32":
                raise NotRead(f"`{name}` is a {kind}, which no score reads")
            self.names[name] = ("given", name)
            parameters.append((name, kind, element))
            if self.peek() == ",":
                self.take()
        self.take("|")
        return tuple(parameters)

    def ends(self) -> None:
        if self.peek():
            raise NotRead(f"`{self.peek()}` follows its end")

    def closure(self) -> tuple[tuple[tuple[str, str, str], ...], Tree]:
        parameters = self.parameters()
        tree = self.statements("") if self.peek() == "let" else self.expression()
        self.ends()
        return parameters, tree

    def condition(self) -> tuple[tuple[tuple[str, str, str], ...], Tree]:
        """The parameters and the tree of a mask's condition, which may begin with parameters."""
        parameters = self.parameters() if self.peek() in ("|", "||") else ()
        tree = self.any_of()
        self.ends()
        return parameters, tree

    def any_of(self) -> Tree:
        tree = self.all_of()
        while self.peek() == "||":
            self.take()
            tree = ("or", tree, self.all_of())
        return tree

    def all_of(self) -> Tree:
        tree = self.test()
        while self.peek() == "&&":
            self.take()
            tree = ("and", tree, self.test())
        return tree

    def test(self) -> Tree:
        if self.peek() == "!":
            self.take()
            return ("not", self.test())
        start = self.at
        if self.peek() == "(":
            # Brackets are around a condition, or around a number that is compared.
            try:
                self.take()
                tree = self.any_of()
                self.take(")")
                if self.peek() in ("", ")", "&&", "||"):
                    return tree
            except NotRead:
                pass
            self.at = start
        tree = self.expression()
        if tree[0] != "compare":
            raise NotRead(f"`{' '.join(self.tokens[start : self.at])}` is a number, and no comparison")
        return tree

    def statements(self, end: str) -> Tree:
        outer = dict(self.names)
        while self.peek() == "let":
            self.take()
            name = self.take()
            self.take("=")
            self.names[name] = self.expression()
            self.take(";")
        tree = self.expression()
        self.names = outer
        if end:
            self.take(end)
        return tree

    def expression(self) -> Tree:
        left = self.sum()
        if self.peek() in _COMPARISONS:
            return ("compare", _COMPARISONS[self.take()], left, self.sum())
        return left

    def sum(self) -> Tree:
        return self.chain(self.product, "+-")

    def product(self) -> Tree:
        return self.chain(self.cast, "*/")

    def chain(self, operand: Callable[[], Tree], signs: str) -> Tree:
        left = operand()
        while self.peek() and self.peek() in signs:
            left = ("binary", self.take(), left, operand())
        return left

    def cast(self) -> Tree:
        tree = self.unary()
        while self.peek() == "as":
            self.take()
            tree = ("cast", self.take(), tree)
        return tree

    def unary(self) -> Tree:
        if self.peek() == "-":
            self.take()
            return ("negative", self.unary())
        return self.primary()

    def primary(self) -> Tree:
        token = self.take()
        if token == "(":
            tree = self.expression()
            self.take(")")
            return tree
        if token == "{":
            return self.statements("}")
        if token == "if":
            return self.choice()
        if token[0].isdigit():
            return ("number", float(token.replace("_", "").removesuffix("f32")))
        if self.peek() == "(":
            return self.call(token)
        if token not in self.names:
            raise NotRead(f"`{token}` is not a name of it")
        return self.names[token]

    def choice(self) -> Tree:
        condition = self.expression()
        self.take("{")
        first = self.statements("}")
        self.take("else")
        if self.peek() == "if":
            self.take()
            return ("choice", condition, first, self.choice())
        self.take("{")
        return ("choice", condition, first, self.statements("}"))

    def call(self, name: str) -> Tree:
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.expression())
            if self.peek() == ",":
                self.take()
        self.take(")")
        if name == "select" and len(arguments) == 3:
            return ("choice", *arguments)
        if name not in _FUNCTIONS:
            raise NotRead(f"`{name}` is not a function that is read here")
        return ("call", name, *arguments)


def _is_mask(tree: Tree) -> bool:
    if tree[0] == "choice":
        return not _has_product(tree[1]) and all(_is_mask(side) or _is_minus_infinity(side) for side in tree[2:])
    product = ("given", "s"), ("given", "scale")
    return tree[:2] == ("binary", "*") and tree[2:] in (product, product[::-1])


def _is_minus_infinity(tree: Tree) -> bool:
    return tree == ("negative", ("given", "inf"))


def _has_product(tree: Any) -> bool:
    return tree == ("given", "s") or (isinstance(tree, tuple) and any(_has_product(part) for part in tree[1:]))


def _gelu(approximate: str) -> Callable:
    import torch

    return functools.partial(torch.nn.functional.gelu, approximate=approximate)


_FUNCTIONS: dict[str, Callable] = {
    "fma": lambda x, y, z: x * y + z,
    "min": lambda x, y: _torch().minimum(x, y),
    "max": lambda x, y: _torch().maximum(x, y),
    "clamp": lambda x, low, high: _torch().minimum(_torch().maximum(x, low), high),
    "relu": lambda x: x.relu(),
    "silu": lambda x: x * x.sigmoid(),
    "gelu": lambda x: _gelu("tanh")(x),
    "gelu_erf": lambda x: _gelu("none")(x),
    **{
        name: (lambda x, name=name: getattr(x, name)())
        for name in ("abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "floor", "tanh", "sigmoid")
    },
}


def _torch() -> Any:
    import torch

    return torch


def _value(tree: Tree, values: Mapping[str, Any]) -> Any:
    """A tree's value; leaves are tensors of the type of ``s``."""
    torch, like = _torch(), values["s"]

    def of(part: Tree) -> Any:
        return _value(part, values)

    match tree:
        case ("number", number):
            return torch.as_tensor(number, dtype=like.dtype, device=like.device)
        case ("given", "inf"):
            return torch.as_tensor(math.inf, dtype=like.dtype, device=like.device)
        case ("given", name):
            return values[name]
        case ("negative", part):
            return -of(part)
        case ("binary", sign, left, right):
            x, y = of(left), of(right)
            return {"+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div}[sign](x, y)
        case ("compare", name, left, right):
            return getattr(torch, name)(of(left), of(right))
        case ("choice", condition, first, second):
            return torch.where(of(condition), of(first), of(second))
        case ("cast", kind, part):
            narrow = {"f16": torch.float16, "bf16": torch.bfloat16}.get(kind)
            return of(part) if narrow is None else of(part).to(narrow).to(like.dtype)
        case ("call", name, *arguments):
            return _FUNCTIONS[name](*(of(argument) for argument in arguments))
    raise AssertionError(f"{tree[0]} is a kind of tree")
