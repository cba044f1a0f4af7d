"""From a function of Python to the text of a spec that remembers which line each word of it is from."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._native import Error

#: How tightly operators bind.
SUM, PRODUCT, SIGN, ATOM = range(4)
OPERATORS = {ast.Add: ("+", SUM), ast.Sub: ("-", SUM), ast.Mult: ("*", PRODUCT), ast.Div: ("/", PRODUCT)}
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
CASTS = ("bf16", "f16", "f32")
EXAMPLE = 'write `(a: Bsr["bf16"], b: Dense["bf16"]) -> Dense["bf16"]`'


#: A part of a function that has a place: a definition, a statement, an expression, a parameter, a setting.
Node = ast.stmt | ast.expr | ast.arg | ast.keyword


@dataclass
class Place:
    """Lines and columns of a file; lines count from 1, columns from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class Problem:
    """One thing that is wrong with a kernel function."""

    place: Place
    fact: str
    help: list[str]


class KernelError(Error):
    """What is wrong with a kernel function: every problem on its own line of the file."""

    def __init__(self, problems: list[Problem], source: Source) -> None:
        self.problems = problems
        super().__init__("\n\n".join(source.report(problem) for problem in problems[:10]))


@dataclass
class Source:
    """The text of a function in its file."""

    name: str
    text: str
    first_line: int
    indent: int

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Source:
        """The source of a function."""
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise Error(
                f"the source of `{getattr(function, '__name__', function)}` is not to be found, and it is what becomes the kernel\n"
                "  help: put the function into a file; `bsr_gemm.Kernel(spec)` takes a spec in text"
            ) from None
        text = "".join(lines)
        indent = len(lines[0]) - len(lines[0].lstrip())
        return cls(inspect.getsourcefile(function) or "<kernel>", textwrap.dedent(text), max(first, 1), indent)

    def place(self, node: Node) -> Place:
        """The position of a node in the file."""
        line, end = node.lineno, node.end_lineno or node.lineno
        offset = self.first_line - 1
        return Place(
            line + offset, node.col_offset + self.indent, end + offset, (node.end_col_offset or 0) + self.indent
        )

    def report(self, problem: Problem) -> str:
        """The problem as a compiler prints it."""
        place = problem.place
        lines = self.text.splitlines()
        at = place.line - self.first_line
        shown = " " * self.indent + (lines[at] if 0 <= at < len(lines) else "")
        end = place.end_column if place.end_line == place.line else len(shown)
        gutter = " " * len(str(place.line))
        fact = problem.fact.replace("\n", "\n  ").replace("\n    ", "\n  ")
        parts = [
            f"error: {fact}",
            f"{gutter}--> {self.name}:{place.line}:{place.column + 1}",
            f"{place.line} | {shown}",
            f"{gutter} | {' ' * place.column}{'^' * max(1, end - place.column)}",
        ]
        return "\n".join([*parts, *(f"{gutter} = help: {line}" for line in problem.help)])


@dataclass
class Text:
    """A text, and the node that each part of it is from."""

    source: Source
    parts: list[tuple[int, int, Node]] = field(default_factory=list)
    text: bytes = b""
    problems: list[Problem] = field(default_factory=list)

    def add(self, words: str, node: Node) -> None:
        """Appends words that a node says."""
        start = len(self.text)
        self.text += words.encode()
        self.parts.append((start, len(self.text), node))

    def refuse(self, node: Node, fact: str, *help: str) -> None:
        """Writes down what is wrong with a node."""
        self.problems.append(Problem(self.source.place(node), fact, list(help)))

    def place(self, start: int, end: int) -> Place:
        """The place of some bytes."""
        found = [node for first, last, node in self.parts if first < max(end, start + 1) and start < last]
        places = [self.source.place(node) for node in found or [self.parts[-1][2]]]
        last = max(places, key=lambda place: (place.end_line, place.end_column))
        return Place(places[0].line, places[0].column, last.end_line, last.end_column)


@dataclass
class Signature:
    """The parameters of a kernel function."""

    a: str
    b: str
    further: list[str]
    defaults: dict[str, float]


def read(function: Callable[..., Any], settings: dict[str, Any]) -> tuple[Text, Signature]:
    """The spec that a function and the settings of its decorator are.

    Raises KernelError with everything that is no kernel in the function's own grammar; what the spec says wrongly is for
    the compiler.
    """
    source = Source.of(function)
    tree = ast.parse(source.text).body[0]
    text = Text(source)
    if not isinstance(tree, ast.FunctionDef):
        place = Place(source.first_line, source.indent, source.first_line, source.indent + 1)
        raise KernelError([Problem(place, "a kernel is a plain function", [EXAMPLE])], source)
    _settings(text, tree, settings)
    signature = _signature(text, tree)
    _body(text, tree)
    if text.problems:
        raise KernelError(text.problems, source)
    return text, signature


def _settings(text: Text, tree: ast.FunctionDef, settings: dict[str, Any]) -> None:
    places: dict[str, Node] = {}
    for decorator in tree.decorator_list:
        if isinstance(decorator, ast.Call):
            places |= {keyword.arg: keyword for keyword in decorator.keywords if keyword.arg}
    for key, value in settings.items():
        node = places.get(key, tree)
        text.add(f"{', ' if text.text else ''}{key} = ", node)
        text.add(setting(value), node)


def setting(value: Any) -> str:
    """A value of a spec's key in the grammar of specs."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(setting(part) for part in value)})"
    if isinstance(value, str) and not value.replace("_", "").isalnum():
        return '"' + value.replace('"', "'") + '"'
    return str(value)


def _matrix(node: ast.AST | None) -> tuple[str, str | None]:
    """`Bsr["bf16"]` as ("Bsr", "bf16"), `float` as ("f32", None)."""
    if isinstance(node, ast.Subscript):
        name, element = _matrix(node.value)[0], node.slice
        if isinstance(element, ast.Constant) and isinstance(element.value, str):
            return name, element.value
        return name, _matrix(element)[0]
    if isinstance(node, ast.Attribute):
        return node.attr, None
    if isinstance(node, ast.Name):
        return ("f32" if node.id == "float" else node.id), None
    return (ast.unparse(node) if node is not None else ""), None


#: The operations by what A, B and C are.
_OPS = {
    ("Bsr", "Dense", "Dense"): "dsd",
    ("Dense", "Bsr", "Dense"): "dds",
    ("Dense", "Dense", "Bsr"): "sdd",
    ("Bsr", "Bsr", "Dense"): "dss",
    ("Bsr", "Bsr", "Bsr"): "sss",
}


def _signature(text: Text, tree: ast.FunctionDef) -> Signature:
    arguments = tree.args
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            text.refuse(star, "a kernel has a fixed list of parameters", EXAMPLE)
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if len(parameters) < 2:
        text.refuse(tree, f"a kernel has two operands, not {len(parameters)}", EXAMPLE)
        return Signature("", "", [], {})
    a, b = parameters[:2]
    returned, second = tree.returns, None
    if isinstance(returned, ast.Subscript) and _matrix(returned.value)[0] in ("tuple", "Tuple"):
        elements = returned.slice.elts if isinstance(returned.slice, ast.Tuple) else [returned.slice]
        returned, second = elements[0], (elements[1] if len(elements) == 2 else None)
    kinds = [_matrix(node) for node in (a.annotation, b.annotation, returned)]
    names = (kinds[0][0], kinds[1][0], kinds[2][0])
    op = _OPS.get(names)
    nodes: tuple[Node, Node, Node] = (a.annotation or a, b.annotation or b, returned or tree)
    if op is None:
        said = f"({', '.join(name or 'nothing' for name in names[:2])}) -> {names[2] or 'nothing'}"
        text.refuse(nodes[0], f"one of the three matrices is a `Bsr`, or both factors are, not {said}", EXAMPLE)
        return Signature(a.arg, b.arg, [], {})
    text.add(f", op = {op}", nodes[0])
    for key, (name, element), node in zip(("a", "b", "out"), kinds, nodes):
        if element is None:
            text.refuse(node, f"`{name}` lacks its element type", f'write `{name}["bf16"]`')
        else:
            text.add(f", {key} = {element}", node)
    if second is not None and _matrix(second) != ("Rows", "f32"):
        text.refuse(second, 'the second result is `Rows["f32"]`', 'write `-> tuple[Dense["bf16"], Rows["f32"]]`')
    defaults = _defaults(text, arguments)
    return Signature(a.arg, b.arg, [parameter.arg for parameter in parameters[2:]], defaults)


def _defaults(text: Text, arguments: ast.arguments) -> dict[str, float]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is not None]
    defaults = {}
    for name, value in pairs:
        try:
            defaults[name.arg] = float(ast.literal_eval(value))
        except (ValueError, TypeError):
            text.refuse(value, f"the default of `{name.arg}` is no number", "only a `float` parameter has a default")
    return defaults


def _body(text: Text, tree: ast.FunctionDef) -> None:
    body = list(tree.body)
    if (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body.pop(0)
    further = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs][2:]
    is_empty = all(
        isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in body
    )
    if is_empty:
        for parameter in further:
            text.refuse(
                parameter,
                f"`{parameter.arg}` is for the epilogue, and there is none",
                "give the function a body: `return acc + bias`",
            )
        return
    text.add(', epilogue = "|', tree)
    for at, parameter in enumerate(further):
        name, element = _matrix(parameter.annotation)
        text.add((", " if at else "") + parameter.arg + ": ", parameter)
        text.add(name if element is None else f"{name}<{element}>", parameter.annotation or parameter)
    text.add("| ", tree)
    has_steps = len(body) > 1
    if has_steps:
        text.add("{ ", body[0])
    for statement in body[:-1]:
        _statement(text, statement)
    last = body[-1]
    if isinstance(last, ast.Return) and last.value is not None:
        _result(text, last.value)
    else:
        text.refuse(last, "the last line of a kernel returns its result", "write `return acc`")
    text.add(' }"' if has_steps else '"', last)


def _statement(text: Text, node: ast.stmt) -> None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        text.add(f"let {node.targets[0].id} = ", node.targets[0])
        _expression(text, node.value, SUM)
        text.add("; ", node)
    elif isinstance(node, ast.If):
        text.refuse(node, "an `if` statement is no expression", "write `x if a < b else y`")
    else:
        text.refuse(
            node,
            f"a kernel's body has assignments and a result, not `{ast.unparse(node).splitlines()[0]}`",
            "write `x = ..`, and `return ..` at the end",
        )


def _result(text: Text, node: ast.expr) -> None:
    if not isinstance(node, ast.Tuple):
        return _expression(text, node, SUM)
    text.add("(", node)
    for at, part in enumerate(node.elts):
        if at:
            text.add(", ", node)
        _expression(text, part, SUM)
    text.add(")", node)
    return None


def _expression(text: Text, node: ast.expr, around: int) -> None:
    """Appends an expression, in brackets if its context binds more tightly."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            sign, level = OPERATORS[type(op)]
            with _Brackets(text, node, level < around):
                _expression(text, left, level)
                text.add(f" {sign} ", node)
                _expression(text, right, level + 1)
        case ast.BinOp(op=ast.Pow()):
            text.refuse(node, "`**` is no operation of an epilogue", "write `x * x`, or `exp(y * log(x))`")
        case ast.UnaryOp(ast.USub(), operand):
            with _Brackets(text, node, around > SIGN):
                text.add("-", node)
                _expression(text, operand, SIGN)
        case ast.UnaryOp(ast.UAdd(), operand):
            _expression(text, operand, around)
        case ast.Name(name):
            text.add(name, node)
        case ast.Constant(value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            text.add(repr(value), node)
        case ast.IfExp(test, body, orelse):
            with _Brackets(text, node, True):
                text.add("if ", node)
                _comparison(text, test)
                text.add(" { ", node)
                _expression(text, body, SUM)
                text.add(" } else { ", node)
                _expression(text, orelse, SUM)
                text.add(" }", node)
        case ast.Call(ast.Name(name), [argument], []) if name in CASTS:
            with _Brackets(text, node, True):
                _expression(text, argument, ATOM)
                text.add(f" as {name}", node.func)
        case ast.Call(ast.Name(name), arguments, []):
            text.add(name, node.func)
            text.add("(", node)
            for at, argument in enumerate(arguments):
                if at:
                    text.add(", ", node)
                if name == "select" and at == 0:
                    _comparison(text, argument)
                else:
                    _expression(text, argument, SUM)
            text.add(")", node)
        case ast.Call(ast.Attribute(attr=name)):
            text.refuse(
                node.func,
                f"functions of an epilogue are plain names, not `{ast.unparse(node.func)}`",
                f"write `{name}(..)`",
            )
        case ast.Call():
            text.refuse(node, "functions of an epilogue take plain arguments", "write them without names and stars")
        case ast.Compare():
            text.refuse(node, "a comparison is no number", "write `x if a < b else y`, or `select(a < b, x, y)`")
        case _:
            text.refuse(
                node,
                f"`{ast.unparse(node)}` is no part of an epilogue",
                "there are `+ - * /`, numbers, names, functions and `x if a < b else y`",
            )


def _comparison(text: Text, node: ast.expr) -> None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        _expression(text, node.left, SUM)
        text.add(f" {COMPARISONS[type(node.ops[0])]} ", node)
        _expression(text, node.comparators[0], SUM)
    else:
        text.refuse(node, f"`{ast.unparse(node)}` is not one comparison", "write `a < b`")


class _Brackets:
    def __init__(self, text: Text, node: Node, needed: bool) -> None:
        self.text, self.node, self.needed = text, node, needed

    def __enter__(self) -> None:
        if self.needed:
            self.text.add("(", self.node)

    def __exit__(self, *_: object) -> None:
        if self.needed:
            self.text.add(")", self.node)
