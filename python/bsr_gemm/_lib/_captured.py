"""What a Python function reads besides its arguments, by which its results may be kept."""

from __future__ import annotations

import builtins
import functools
import types
import weakref
from typing import Any

import torch
from torch import Tensor

from ._places import version_of

#: Functions within functions that are looked into.
_DEPTH = 8
_PLAIN = (bool, int, float, str, bytes, torch.dtype, torch.device, type(None))


class Unknown(Exception):
    """A function that reads what cannot be compared."""


def captured(function: Any) -> tuple[Any, list[weakref.ref]]:
    """What tells the results of a function from others, and the tensors among it, which it names by their identity.

    Raises :class:`Unknown` for a function whose results may differ though nothing that is seen here has changed: it reads
    objects, tensors with a gradient, or random numbers.
    """
    tensors: list[weakref.ref] = []
    return _of(function, tensors, 0), tensors


def _of(value: Any, tensors: list[weakref.ref], depth: int) -> Any:
    if depth > _DEPTH:
        raise Unknown
    if isinstance(value, _PLAIN):
        # 1, 1.0 and True are equal, and compute otherwise; so do 0.0 and -0.0.
        return type(value), repr(value)
    if isinstance(value, Tensor):
        version = version_of(value)
        if version is None or value.requires_grad:
            raise Unknown
        tensors.append(weakref.ref(value))
        return id(value), version
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_of(part, tensors, depth + 1) for part in value)
    if isinstance(value, functools.partial):
        return _of((value.func, value.args, *sorted(value.keywords.items())), tensors, depth + 1)
    if isinstance(value, types.FunctionType):
        return _of_function(value, tensors, depth)
    if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)) and _is_constant(value):
        return id(value)
    raise Unknown


def _of_function(function: types.FunctionType, tensors: list[weakref.ref], depth: int) -> Any:
    names = _names(function.__code__)
    if any(name.startswith(("rand", "bernoulli", "normal_", "uniform_")) for name in names):
        raise Unknown
    try:
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    except ValueError:
        raise Unknown from None
    read = tuple((name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__)
    further = cells, function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items())), read
    return function.__code__, _of(further, tensors, depth + 1)


def _names(code: types.CodeType) -> set[str]:
    """The names of what a function reads, attributes among them, and of functions within it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _is_constant(value: Any) -> bool:
    """Whether this is a part of PyTorch or of Python that no program changes."""
    module = value.__name__ if isinstance(value, types.ModuleType) else value.__module__ or ""
    return module.partition(".")[0] in ("torch", "math", "operator", "functools", builtins.__name__)
