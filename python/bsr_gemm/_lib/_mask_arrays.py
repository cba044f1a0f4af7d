"""Arrays of which masks of attention are made: what they must be, and whose patterns they hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays
from ._native import Error


def mark(to: np.ndarray, counts: np.ndarray, indices: np.ndarray) -> None:
    """Marks the blocks of FlexAttention's lists, whose rows have entries beyond their counts that mean nothing."""
    counted = np.arange(indices.shape[-1]) < counts[..., None]
    places = np.nonzero(counted)
    to[(*places[:-1], indices[places])] = True


def patterns_of(array: np.ndarray) -> tuple[np.ndarray, str]:
    """Patterns x rows x columns, and which heads have which."""
    if array.ndim == 2:
        return array[None], "all"
    if array.ndim != 4:
        raise Error(
            f"an array of {array.ndim} dimensions is no mask\n  help: rows x columns, or problems x heads x rows x columns"
        )
    return array.reshape(-1, *array.shape[2:]), per_of(*array.shape[:2])


def per_of(batch: int, heads: int) -> str:
    """Which heads have patterns of their own, where there are so many of problems and heads."""
    return "both" if batch > 1 and heads > 1 else "problem" if batch > 1 else "head" if heads > 1 else "all"


def boolean(array: Any, what: str) -> np.ndarray:
    array = _arrays.host(array)
    if array.dtype != bool:
        raise Error(f"{what} is of {array.dtype}\n  help: an array of booleans, `x > 0` for instance")
    return array


def flags_of(array: Any) -> np.ndarray:
    return np.ascontiguousarray(boolean(array, "partial"))


def counted(number: Any, what: str, least: int = 0) -> int:
    if int(number) != number or number < least:
        raise Error(f"{what} = {number}\n  help: an integer of at least {least}")
    return int(number)


def unsigned(array: Any, what: str) -> np.ndarray:
    array = _arrays.host(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise Error(
            f"{what} has {array.ndim} dimensions of {array.dtype}, but it is a list of integers\n"
            "  help: with several patterns, pass `per` to assign them to heads"
        )
    if array.size and (array.min() < 0 or array.max() >= 1 << 32):
        wrong = int(np.nonzero((array < 0) | (array >= 1 << 32))[0][0])
        raise Error(f"{what}[{wrong}] = {array[wrong]}\n  help: block columns and row starts count from 0")
    return np.ascontiguousarray(array.astype("<u4"))
