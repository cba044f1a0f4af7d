"""What these products need of cuSPARSE beside `benches.peers.cusparse`: vectors, CSR, SpGEMM, and the block product of the
older API. Values and signatures are those of cusparse.h of CUDA 13.0."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import POINTER, byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import torch

from .. import cusparse as api

R_64F = 1
KINDS = {torch.float32: api.R_32F, torch.float64: R_64F, torch.float16: api.R_16F}
SCALARS = {torch.float32: c_float, torch.float64: c_double}
SPMV_ALGORITHMS = {"": 0, ", ALG1": 2, ", ALG2": 3}
SPGEMM_DEFAULT, SPGEMM_ALG2, SPGEMM_ALG3 = 0, 4, 5

_SIZE = POINTER(c_size_t)
_SPMV = [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int]
_SPGEMM = [c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p]
_REUSE = [c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p]
_BSRMV = [c_void_p] + [c_int] * 5 + [c_void_p] * 5 + [c_int] + [c_void_p] * 3
_ARGUMENTS: dict[str, list[Any]] = {
    "cusparseCreateMatDescr": [POINTER(c_void_p)],
    "cusparseSbsrmv": _BSRMV,
    "cusparseDbsrmv": _BSRMV,
    "cusparseCreateCsr": [POINTER(c_void_p)] + [c_int64] * 3 + [c_void_p] * 3 + [c_int] * 4,
    "cusparseCreateDnVec": [POINTER(c_void_p), c_int64, c_void_p, c_int],
    "cusparseDestroySpMat": [c_void_p],
    "cusparseSpMatGetSize": [c_void_p] + [POINTER(c_int64)] * 3,
    "cusparseCsrSetPointers": [c_void_p] * 4,
    "cusparseSpMV_bufferSize": [*_SPMV, _SIZE],
    "cusparseSpMV_preprocess": [*_SPMV, c_void_p],
    "cusparseSpMV": [*_SPMV, c_void_p],
    "cusparseSpGEMM_createDescr": [POINTER(c_void_p)],
    "cusparseSpGEMM_destroyDescr": [c_void_p],
    "cusparseSpGEMM_workEstimation": [*_SPGEMM, _SIZE, c_void_p],
    "cusparseSpGEMM_estimateMemory": [*_SPGEMM, c_float, _SIZE, c_void_p, _SIZE],
    "cusparseSpGEMM_compute": [*_SPGEMM, _SIZE, c_void_p],
    "cusparseSpGEMM_copy": _SPGEMM,
    "cusparseSpGEMMreuse_workEstimation": [*_REUSE, _SIZE, c_void_p],
    "cusparseSpGEMMreuse_nnz": [*_REUSE] + [_SIZE, c_void_p] * 3,
    "cusparseSpGEMMreuse_copy": [*_REUSE, _SIZE, c_void_p],
    "cusparseSpGEMMreuse_compute": _SPGEMM,
}


class Csr:
    """Compressed rows of single values."""

    def __init__(
        self, shape: tuple[int, int], row_ptr: torch.Tensor, col_idx: torch.Tensor, values: torch.Tensor
    ) -> None:
        self.shape, self.row_ptr, self.col_idx, self.values = shape, row_ptr, col_idx, values

    def dense(self) -> torch.Tensor:
        """All of it."""
        return torch.sparse_csr_tensor(
            self.row_ptr, self.col_idx, self.values, self.shape, check_invariants=False
        ).to_dense()


def of_blocks(shape: tuple[int, int], row_ptr: torch.Tensor, col_idx: torch.Tensor, values: torch.Tensor) -> Csr:
    """The same matrix by single values; `values` are blocks x rows x columns, pointers and places of 32 bits."""
    _, height, width = values.shape
    starts = row_ptr.long()
    counts = starts.diff()
    row = torch.repeat_interleave(torch.arange(len(counts), device=values.device), counts)
    within = torch.arange(len(col_idx), device=values.device) - starts[row]
    first = starts[row] * height * width + within * width
    step = counts[row] * width
    down, across = (torch.arange(count, device=values.device) for count in (height, width))
    place = first[:, None, None] + step[:, None, None] * down[:, None] + across
    columns = (col_idx.long() * width)[:, None, None] + across.expand(1, height, width)
    new_values = torch.empty(values.numel(), dtype=values.dtype, device=values.device)
    new_columns = torch.empty(values.numel(), dtype=torch.int32, device=values.device)
    new_values[place.flatten()] = values.flatten()
    new_columns[place.flatten()] = columns.int().flatten()
    lengths = (counts * width).repeat_interleave(height)
    pointers = torch.zeros(len(lengths) + 1, dtype=torch.int32, device=values.device)
    pointers[1:] = lengths.cumsum(0)
    return Csr(shape, pointers, new_columns, new_values)


def scratch(size: int) -> torch.Tensor:
    """A buffer of at least a byte."""
    return torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")


class Library(api.Cusparse):
    """The library, loaded, with these functions, too."""

    def __init__(self) -> None:
        super().__init__()
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, c_int

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function. Raises CusparseError with its name and the status's."""
        self._call(name, *arguments)

    def here(self) -> c_void_p:
        """The handle, on the current stream."""
        return self.handle(torch.cuda.current_stream().cuda_stream)

    def made(self, name: str, *arguments: object) -> c_void_p:
        """A descriptor that a function makes."""
        made = c_void_p()
        self.call(name, byref(made), *arguments)
        return made

    def csr(self, matrix: Csr | None, shape: tuple[int, int], kind: torch.dtype) -> c_void_p:
        """A matrix by rows, or the place for one whose size is not known yet."""
        types = (api.INDEX_32I, api.INDEX_32I, api.BASE_ZERO, KINDS[kind])
        if matrix is None:
            return self.made("cusparseCreateCsr", *shape, 0, None, None, None, *types)
        pointers = (matrix.row_ptr.data_ptr(), matrix.col_idx.data_ptr(), matrix.values.data_ptr())
        return self.made("cusparseCreateCsr", *shape, len(matrix.values), *pointers, *types)

    def sized(self, name: str, *arguments: object) -> torch.Tensor:
        """A function that is asked for the size of its buffer, and then called with one: the buffer."""
        size = c_size_t()
        self.call(name, *arguments, byref(size), None)
        buffer = scratch(size.value)
        self.call(name, *arguments, byref(size), buffer.data_ptr())
        return buffer


class Spmv:
    """y = A x for a matrix by rows, prepared once."""

    def __init__(self, library: Library, matrix: Csr, x: torch.Tensor, algorithm: int) -> None:
        kind = KINDS[x.dtype]
        self._keep = (matrix, x)
        self._library = library
        self.y = torch.full((matrix.shape[0],), torch.nan, dtype=x.dtype, device=x.device)
        self._one, self._zero = SCALARS[x.dtype](1), SCALARS[x.dtype](0)
        sparse = library.csr(matrix, matrix.shape, x.dtype)
        vectors = [library.made("cusparseCreateDnVec", len(v), v.data_ptr(), kind) for v in (x, self.y)]
        factors = (byref(self._one), sparse, vectors[0], byref(self._zero), vectors[1])
        self._arguments = (library.here(), api.NON_TRANSPOSE, *factors, kind, algorithm)
        size = c_size_t()
        library.call("cusparseSpMV_bufferSize", *self._arguments, byref(size))
        self._buffer = scratch(size.value)
        library.call("cusparseSpMV_preprocess", *self._arguments, self._buffer.data_ptr())

    def __call__(self) -> torch.Tensor:
        """Enqueues the product."""
        self._library.call("cusparseSpMV", *self._arguments, self._buffer.data_ptr())
        return self.y


class Bsrmv:
    """y = A x for square blocks."""

    ROWS = 0
    """Blocks row by row."""

    def __init__(
        self, library: Library, row_ptr: torch.Tensor, col_idx: torch.Tensor, values: torch.Tensor, x: torch.Tensor
    ) -> None:
        rows, (nnzb, side, _) = len(row_ptr) - 1, values.shape
        self._keep = (row_ptr, col_idx, values, x)
        self._library = library
        self.y = torch.full((rows * side,), torch.nan, dtype=x.dtype, device=x.device)
        self._one, self._zero = SCALARS[x.dtype](1), SCALARS[x.dtype](0)
        self._name = "cusparseDbsrmv" if x.dtype == torch.float64 else "cusparseSbsrmv"
        matrix = library.made("cusparseCreateMatDescr")
        pointers = (values.data_ptr(), row_ptr.data_ptr(), col_idx.data_ptr())
        sizes = (self.ROWS, api.NON_TRANSPOSE, rows, len(x) // side, nnzb)
        places = (x.data_ptr(), byref(self._zero), self.y.data_ptr())
        self._arguments = (library.here(), *sizes, byref(self._one), matrix, *pointers, side, *places)

    def __call__(self) -> torch.Tensor:
        """Enqueues the product."""
        self._library.call(self._name, *self._arguments)
        return self.y


class Spgemm:
    """C = A B by rows, in f32."""

    def __init__(self, library: Library, a: Csr, b: Csr) -> None:
        self._library, self._factors = library, (a, b)
        self._sparse = [library.csr(x, x.shape, torch.float32) for x in (a, b)]
        self._one, self._zero = c_float(1), c_float(0)
        self._rows = torch.empty(a.shape[0] + 1, dtype=torch.int32, device="cuda")

    def whole(self, algorithm: int, part: float) -> Csr:
        """The product, from nothing: the size of C, its places, its values."""
        library, shape = self._library, (self._factors[0].shape[0], self._factors[1].shape[1])
        c = library.csr(None, shape, torch.float32)
        library.call("cusparseCsrSetPointers", c, self._rows.data_ptr(), None, None)
        product = library.made("cusparseSpGEMM_createDescr")
        try:
            every = self._every(c, algorithm, product)
            buffers = [library.sized("cusparseSpGEMM_workEstimation", *every)]
            if algorithm == SPGEMM_DEFAULT:
                buffers.append(library.sized("cusparseSpGEMM_compute", *every))
            else:
                size, least = c_size_t(), c_size_t()
                name = "cusparseSpGEMM_estimateMemory"
                library.call(name, *every, part, byref(size), None, None)
                estimate = scratch(size.value)
                library.call(name, *every, part, byref(size), estimate.data_ptr(), byref(least))
                buffers.append(scratch(least.value))
                library.call("cusparseSpGEMM_compute", *every, byref(least), buffers[-1].data_ptr())
            found = self._room(c, shape)
            library.call("cusparseSpGEMM_copy", *every)
            return found
        finally:
            library.call("cusparseSpGEMM_destroyDescr", product)
            library.call("cusparseDestroySpMat", c)

    def again(self) -> Iterator[Csr]:
        """The places of C first; then, whenever it is asked, C's values anew: what is left if patterns stay."""
        library, shape = self._library, (self._factors[0].shape[0], self._factors[1].shape[1])
        c = library.csr(None, shape, torch.float32)
        library.call("cusparseCsrSetPointers", c, self._rows.data_ptr(), None, None)
        product = library.made("cusparseSpGEMM_createDescr")
        of = (library.here(), api.NON_TRANSPOSE, api.NON_TRANSPOSE, *self._sparse, c, SPGEMM_DEFAULT, product)
        first = library.sized("cusparseSpGEMMreuse_workEstimation", *of)
        sizes = [c_size_t() for _ in range(3)]
        asked = [part for size in sizes for part in (byref(size), None)]
        library.call("cusparseSpGEMMreuse_nnz", *of, *asked)
        kept = [scratch(size.value) for size in sizes]
        given = [part for size, room in zip(sizes, kept, strict=True) for part in (byref(size), room.data_ptr())]
        library.call("cusparseSpGEMMreuse_nnz", *of, *given)
        del first
        found = self._room(c, shape)
        kept.append(library.sized("cusparseSpGEMMreuse_copy", *of))
        while True:
            library.call("cusparseSpGEMMreuse_compute", *self._every(c, SPGEMM_DEFAULT, product))
            yield found

    def _every(self, c: c_void_p, algorithm: int, product: c_void_p) -> tuple[object, ...]:
        a, b = self._sparse
        factors = (byref(self._one), a, b, byref(self._zero), c)
        turned = (api.NON_TRANSPOSE, api.NON_TRANSPOSE)
        return (self._library.here(), *turned, *factors, api.R_32F, algorithm, product)

    def _room(self, c: c_void_p, shape: tuple[int, int]) -> Csr:
        rows, columns, stored = (c_int64() for _ in range(3))
        self._library.call("cusparseSpMatGetSize", c, byref(rows), byref(columns), byref(stored))
        places = torch.empty(stored.value, dtype=torch.int32, device="cuda")
        values = torch.full((stored.value,), torch.nan, device="cuda")
        pointers = (self._rows.data_ptr(), places.data_ptr(), values.data_ptr())
        self._library.call("cusparseCsrSetPointers", c, *pointers)
        return Csr(shape, self._rows, places, values)
