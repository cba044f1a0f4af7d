"""What a program's own kernels are given: operands by name, and what their epilogues read."""

from __future__ import annotations

from typing import Any

from . import _arrays
from ._matrix import BsrMatrix
from ._native import Error
from ._syntax import Signature


def named(signature: Signature, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The operands of a call by their names."""
    names = [signature.a, signature.b, *signature.further]
    if len(args) > len(names):
        raise Error(f"{len(args)} operands, and the kernel takes {len(names)}: {', '.join(names)}")
    arguments = dict(zip(names, args))
    for name, value in kwargs.items():
        if name not in names or name in arguments:
            fact = "is given twice" if name in arguments else "is no operand of the kernel"
            raise Error(f"`{name}` {fact}\n  help: it takes {', '.join(names)}")
        arguments[name] = value
    missing = [name for name in names if name not in arguments and name not in signature.defaults]
    if missing:
        raise Error(f"`{missing[0]}` is not given\n  help: the kernel takes {', '.join(names)}")
    return {**signature.defaults, **arguments}


def inputs_of(
    parameters: list[tuple[str, str]],
    arguments: dict[str, Any],
    operands: tuple[Any, Any, tuple[int, int]],
    is_transposed: bool = False,
) -> tuple[list[tuple[str, _arrays.Matrix]], list[Any]]:
    """The arguments of an epilogue's parameters, and the objects to keep alive. ``operands`` are the values of the first factor, the
    pattern of the result's blocks, and the shape of the result, which may be transposed."""
    (factor, pattern, (m, n)), described, alive = operands, [], []
    for name, kind in parameters:
        value = arguments[name]
        if kind == "f32":
            number, matrix = _arrays.scalar(float(value))
            described.append((name, matrix))
            alive.append(number)
            continue
        word, element = kind.removesuffix(">").split("<")
        array = value.values if isinstance(value, BsrMatrix) else _arrays.as_array(value)
        of_blocks = () if pattern is None else (pattern.nnzb, *pattern.block)
        shape = {"Rows": (m,), "Cols": (n,), "Dense": (m, n), "Bsr": of_blocks}[word]
        if tuple(array.shape) != shape or _arrays.kind_of(array) != element:
            found = f"{' x '.join(map(str, array.shape))} of {_arrays.kind_of(array)}"
            raise Error(
                f"`{name}` is {found}, and the kernel's epilogue reads {' x '.join(map(str, shape))} of {element}"
            )
        here = factor.device if _arrays.is_tensor(factor) else "cpu"
        if _arrays.is_tensor(array) and str(array.device) != str(here):
            raise Error(f"`{name}` is on {array.device}, and the operands are on {here}\n  help: move it there")
        # The values of blocks are read one after the other.
        array = _arrays.contiguous(array) if word == "Bsr" else array
        alive.append(array)
        if word == "Bsr":
            described.append((name, _arrays.values(array)))
        elif word == "Dense":
            described.append((name, _arrays.matrix(array.T if is_transposed else array)))
        else:
            describe = _arrays.rows if (word == "Rows") != is_transposed else _arrays.cols
            described.append((name, describe(array, len(array))))
    return described, alive


def tensors_of(
    parameters: list[tuple[str, str]], arguments: dict[str, Any], device: Any, layout: str
) -> list[tuple[str, Any]]:
    """The same on a GPU, after they were looked at: numbers and tensors, matrices as the kernel's C lies."""
    from ._operands import laid

    further = []
    for name, kind in parameters:
        value = arguments[name]
        if kind == "f32":
            further.append((name, float(value)))
            continue
        value = value.values if isinstance(value, BsrMatrix) else value
        if not _arrays.is_tensor(value) or value.device != device:
            where = f"on {value.device}" if _arrays.is_tensor(value) else f"a {type(value).__name__}"
            raise Error(f"`{name}` is {where}, and the operands are on {device}\n  help: move it there")
        further.append((name, laid(value, layout) if kind.startswith("Dense") else value))
    return further
