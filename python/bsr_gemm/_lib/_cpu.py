"""Products on the CPU, of arrays of NumPy and of tensors."""

from __future__ import annotations

from typing import Any

from . import _arrays, _native
from ._arrays import result_kind
from ._epilogues import derivative_of, epilogue_of
from ._native import Error
from ._patterns import Pattern


def linear_into(pattern: Pattern, values: Any, x: Any, out: Any, bias: Any, transpose: bool, activation: str) -> None:
    """On the CPU: ``out = activation(x @ w.T + bias)``, or with ``w`` where it is transposed."""
    epilogue, inputs = epilogue_of(activation, None if bias is None else _arrays.kind_of(bias)), []
    if bias is not None:
        if len(bias.shape) != 1 or bias.shape[0] != out.shape[1]:
            raise Error(f"the bias is {' x '.join(map(str, bias.shape))}, and there are {out.shape[1]} outputs")
        inputs.append(("bias", _arrays.rows(bias, out.shape[1])))
    product_into(pattern, values, x, out, transpose, None if epilogue is None else (epilogue, inputs))


def product_into(
    pattern: Pattern,
    values: Any,
    x: Any,
    out: Any,
    transpose: bool,
    epilogue: tuple[str, list] | None,
    sums: Any = None,
) -> None:
    """On the CPU: ``out = epilogue(x @ w.T)`` and what its rows collect; what the epilogue reads is that of C = out.T."""
    alive, blocks = _arrays.stored(values, pattern)
    last = None if sums is None else _arrays.rows(sums, len(sums))
    _native.multiply(pattern._native, transpose, blocks, _arrays.matrix(x.T), _arrays.matrix(out.T), epilogue, last)
    del alive


def gradient_into(
    pattern: Pattern, values: Any, dy: Any, kept: Any, out: Any, sums: Any, transpose: bool, activation: str
) -> None:
    """On the CPU: ``out = (dy @ w) * activation'``, and the sums of its columns."""
    inputs = [] if activation == "none" else [("u", _arrays.matrix(kept.T))]
    epilogue = derivative_of(activation, _arrays.kind_of(kept)), inputs
    product_into(pattern, values, dy, out, transpose, epilogue, sums)


def sddmm_values(a: Any, b: Any, pattern: Pattern) -> Any:
    """On the CPU: the values of the stored blocks of ``a @ b``."""
    if a.dtype != b.dtype:
        raise Error(f"the operands are of {a.dtype} and {b.dtype}\n  help: convert one of them")
    shape, kind = (pattern.nnzb, *pattern.block), result_kind(_arrays.kind_of(a))
    _arrays.ask_for("the result", shape, a, kind)
    out = _arrays.empty_like(a, shape, kind)
    _native.multiply_sddmm(pattern._native, _arrays.matrix(a), _arrays.matrix(b), _arrays.values(out))
    return out
