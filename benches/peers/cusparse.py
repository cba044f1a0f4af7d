"""The part of cuSPARSE's generic API that is needed, through ctypes. Enum values and signatures are those of
cusparse.h and library_types.h of CUDA 13.0 (cuSPARSE 12.6)."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from .peer import Refused

NON_TRANSPOSE, TRANSPOSE = 0, 1
ORDER_COL, ORDER_ROW = 1, 2
INDEX_32I = 2
BASE_ZERO = 0
R_32F, R_16F = 0, 2
SPMM_BLOCKED_ELL_ALG1, SPMM_BSR_ALG1 = 13, 14
SDDMM_ALG_DEFAULT = 0

_MULTIPLY = [c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int]
_ARGUMENTS: dict[str, list[Any]] = {
    "cusparseCreate": [POINTER(c_void_p)],
    "cusparseGetVersion": [c_void_p, POINTER(c_int)],
    "cusparseSetStream": [c_void_p, c_void_p],
    "cusparseCreateDnMat": [POINTER(c_void_p), c_int64, c_int64, c_int64, c_void_p, c_int, c_int],
    "cusparseCreateBsr": [POINTER(c_void_p)] + [c_int64] * 5 + [c_void_p] * 3 + [c_int] * 5,
    "cusparseCreateBlockedEll": [POINTER(c_void_p)] + [c_int64] * 4 + [c_void_p] * 2 + [c_int] * 3,
    "cusparseSpMM_bufferSize": [*_MULTIPLY, POINTER(c_size_t)],
    "cusparseSpMM": [*_MULTIPLY, c_void_p],
    "cusparseSDDMM_bufferSize": [*_MULTIPLY, POINTER(c_size_t)],
    "cusparseSDDMM": [*_MULTIPLY, c_void_p],
}


class CusparseError(Refused):
    """A status that is not success, with the call and the library's name for it."""


class Cusparse:
    """The library, loaded. Sizes are in elements, pointers those of device memory, sums and scalars f32."""

    def __init__(self) -> None:
        self._library = load()
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, c_int
        self._library.cusparseGetErrorName.argtypes = [c_int]
        self._library.cusparseGetErrorName.restype = c_char_p
        self._one, self._zero = c_float(1), c_float(0)
        self._handle: c_void_p | None = None

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise CusparseError(f"{name}: {self._library.cusparseGetErrorName(status).decode()}")

    def handle(self, stream: int) -> c_void_p:
        """The handle, made at the first call; work goes to `stream`."""
        if self._handle is None:
            handle = c_void_p()
            self._call("cusparseCreate", byref(handle))
            self._handle = handle
        self._call("cusparseSetStream", self._handle, c_void_p(stream))
        return self._handle

    def version(self, stream: int) -> str:
        """As `12.6.3`."""
        number = c_int()
        self._call("cusparseGetVersion", self.handle(stream), byref(number))
        return f"{number.value // 1000}.{number.value // 100 % 10}.{number.value % 100}"

    def dense(self, rows: int, cols: int, data: int, order: int) -> c_void_p:
        """A dense f16 matrix without padding."""
        matrix, ld = c_void_p(), cols if order == ORDER_ROW else rows
        self._call("cusparseCreateDnMat", byref(matrix), rows, cols, ld, data, R_16F, order)
        return matrix

    def bsr(self, rows: int, cols: int, nnzb: int, block: tuple[int, int], ptr: int, idx: int, values: int) -> c_void_p:
        """A BSR f16 matrix of `rows` x `cols` blocks, row-major inside."""
        matrix = c_void_p()
        shape = (rows, cols, nnzb, *block)
        types = (INDEX_32I, INDEX_32I, BASE_ZERO, R_16F, ORDER_ROW)
        self._call("cusparseCreateBsr", byref(matrix), *shape, ptr, idx, values, *types)
        return matrix

    def blocked_ell(self, rows: int, cols: int, block: int, ell_cols: int, columns: int, values: int) -> c_void_p:
        """A Blocked-ELL f16 matrix of `rows` x `cols` elements; `ell_cols` values a row."""
        matrix = c_void_p()
        types = (INDEX_32I, BASE_ZERO, R_16F)
        self._call("cusparseCreateBlockedEll", byref(matrix), rows, cols, block, ell_cols, columns, values, *types)
        return matrix

    def spmm_bytes(self, stream: int, op: int, a: c_void_p, b: c_void_p, c: c_void_p, algorithm: int) -> int:
        """Bytes of the buffer that `spmm` takes."""
        return self._bytes("cusparseSpMM_bufferSize", self._multiply(stream, op, a, b, c, algorithm))

    def spmm(self, stream: int, op: int, a: c_void_p, b: c_void_p, c: c_void_p, algorithm: int, buffer: int) -> None:
        """C = op(A) * B with sparse A."""
        self._call("cusparseSpMM", *self._multiply(stream, op, a, b, c, algorithm), buffer)

    def sddmm_bytes(self, stream: int, a: c_void_p, b: c_void_p, c: c_void_p) -> int:
        """Bytes of the buffer that `sddmm` takes."""
        arguments = self._multiply(stream, NON_TRANSPOSE, a, b, c, SDDMM_ALG_DEFAULT)
        return self._bytes("cusparseSDDMM_bufferSize", arguments)

    def sddmm(self, stream: int, a: c_void_p, b: c_void_p, c: c_void_p, buffer: int) -> None:
        """The stored elements of C = A * B."""
        self._call("cusparseSDDMM", *self._multiply(stream, NON_TRANSPOSE, a, b, c, SDDMM_ALG_DEFAULT), buffer)

    def _multiply(
        self, stream: int, op: int, a: c_void_p, b: c_void_p, c: c_void_p, algorithm: int
    ) -> tuple[object, ...]:
        scalars = (byref(self._one), byref(self._zero))
        return (self.handle(stream), op, NON_TRANSPOSE, scalars[0], a, b, scalars[1], c, R_32F, algorithm)

    def _bytes(self, name: str, arguments: tuple[object, ...]) -> int:
        size = c_size_t()
        self._call(name, *arguments, byref(size))
        return size.value


def load() -> ctypes.CDLL:
    """The library: the one that PyTorch has loaded, or else what is found. Raises CusparseError."""
    tried = []
    for name in candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise CusparseError("libcusparse cannot be loaded: " + "; ".join(tried))


def candidates() -> Iterator[str]:
    """Where libcusparse may be: by name, beside PyTorch, in CUDA's own folder."""
    yield "libcusparse.so.12"
    yield "libcusparse.so"
    for folder in map(Path, sys.path):
        yield from map(str, sorted(folder.glob("nvidia/*/lib/libcusparse.so.*")))
    yield "/usr/local/cuda/lib64/libcusparse.so"
    if found := ctypes.util.find_library("cusparse"):
        yield found
