"""Calls of a program's own kernels on two block-sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _native
from ._blocks import gather
from ._cpu import product_into
from ._matrix import BsrMatrix, as_matrix
from ._native import Error
from ._products import check_pairs, pattern_of_product

#: The operations: with a dense result, and with one in blocks.
OPS = ("dss", "sss")


@dataclass
class PairsCall:
    """The operands of one call, checked: of a result in blocks the pattern is given, ``like=``, or that of the product."""

    kernel: Any
    a: BsrMatrix
    b: BsrMatrix
    pattern: Any

    @classmethod
    def of(cls, kernel: Any, args: tuple, kwargs: dict[str, Any]) -> PairsCall:
        native, signature = kernel._native, kernel._signature
        names = (signature.a, signature.b)
        if kernel._inputs:
            raise Error(
                "an epilogue of a kernel on two block-sparse matrices is not launched from Python\n"
                "  help: drop `epilogue`, and compute with the result"
            )
        like = kwargs.pop("like", None)
        given = {**dict(zip(names, args)), **kwargs}
        if len(args) > 2 or set(given) != set(names) or len(args) + len(kwargs) != 2:
            raise Error(
                f"the kernel takes {names[0]} and {names[1]}\n  help: `like=` is the pattern of a result in blocks"
            )
        a, b = (as_matrix(given[name], f"`{name}`") for name in names)
        for name, matrix, kind in zip(names, (a, b), native.dtypes):
            if _arrays.kind_of(matrix.values) != kind:
                found = _arrays.kind_of(matrix.values)
                raise Error(f"`{name}` is of {found}, and the kernel multiplies {kind}\n  help: convert it")
        bm, bk, bn = *native.block, native.width
        if (a.block, b.block) != ((bm, bk), (bk, bn)):
            found = f"{a.block[0]} x {a.block[1]} and {b.block[0]} x {b.block[1]}"
            raise Error(
                f"the matrices have blocks of {found}, and the kernel multiplies {bm} x {bk} and {bk} x {bn}\n"
                f"  help: bm = {a.block[0]}, bk = {a.block[1]}, bn = {b.block[1]}"
            )
        check_pairs(a, b)
        if native.op == "dss" and like is not None:
            raise Error("the result of op = dss is dense, and has no pattern\n  help: op = sss, or leave out `like`")
        return cls(kernel, a, b, pattern_of_product(a, b, like) if native.op == "sss" else None)

    def empty(self) -> Any:
        """A place for the result."""
        kind, like = self.kernel._native.dtypes[2], self.a.values
        if self.pattern is not None:
            out = _arrays.empty_like(like, (self.pattern.nnzb, *self.pattern.block), kind)
            # Places without a block are not written.
            return out.zero_() if self.pattern.on_device else out
        m, n = self.a.shape[0], self.b.shape[1]
        is_col = self.kernel._native.layouts[2] == "col"
        return _arrays.empty_like(like, (n, m), kind).T if is_col else _arrays.empty_like(like, (m, n), kind)

    def result(self, out: Any) -> Any:
        """As the caller gets it."""
        return out if self.pattern is None else BsrMatrix(out, self.pattern, check=False)

    def run(self) -> Any:
        """The product, where the values are."""
        values = self.a.values
        if _arrays.is_tensor(values) and values.is_cuda:
            return self._on_gpu()
        whole, kind, a = self.b.to_dense(), self.kernel._native.dtypes[2], self.a.to_host()
        out = _arrays.empty_like(values, (self.b.shape[1], self.a.shape[0]), kind)
        product_into(a.pattern, a.values, whole.T, out, False, None)
        return out.T if self.pattern is None else self.result(self._at(lambda of: gather(out.T, of)))

    def _at(self, blocks: Callable[[Any], Any]) -> Any:
        """What `blocks` has at those of a pattern of the host, at their places in the result."""
        if not self.pattern.on_device:
            return blocks(self.pattern)
        from ._device_patterns import spread

        return spread(self.pattern, blocks(self.pattern.to_pattern()))

    def _on_gpu(self) -> Any:
        from . import _gpu
        from ._operands import Result
        from ._pairs import launched

        index, native, out = self.a.values.device.index, self.kernel._native, self.empty()
        if 0 in (self.a.nnzb, self.b.nnzb, out.numel()):
            return self.result(out.zero_())
        factors = ((self.a.values, self.a.pattern), (self.b.values, self.b.pattern))
        with _gpu.OnDevice(index):
            loaded = _gpu.cached(_gpu._loaded, (index, self.kernel.spec), lambda: _gpu.gpu_of(index).load(native))
            if self.pattern is not None:
                launched(loaded, factors, self.pattern, (out.data_ptr(), 0))
                return self.result(out)
            place = Result(out, native.layouts[2] == "col")
            launched(loaded, factors, None, (place.argument[0], place.argument[4]))
            place.finish()
        return out

    def simulated(self, seed: int) -> tuple:
        """The product as the simulator computed it, its second result, findings and cost."""
        if self.a.pattern.on_device:
            return self._simulated_here(seed)
        a, b = (_arrays.contiguous(matrix.values) for matrix in (self.a, self.b))
        of_c = None if self.pattern is None else self.pattern._native
        patterns = (self.a.pattern._native, self.b.pattern._native, of_c)
        native = self.kernel._native
        data, _, findings, cost = _native.simulate_pairs(native, patterns, _arrays.values(a), _arrays.values(b), seed)
        out = self.empty()
        if _arrays.is_tensor(a):
            import torch

            found = torch.frombuffer(bytearray(data), dtype=out.dtype).reshape(tuple(out.shape)) if data else out
        else:
            found = np.frombuffer(bytearray(data), dtype=out.dtype).reshape(out.shape)
        return self.result(found), findings, cost

    def _simulated_here(self, seed: int) -> tuple:
        """The same of patterns on a device, as they are now."""
        of_c = None if self.pattern is None else self.pattern.to_pattern()
        here = PairsCall(self.kernel, self.a.to_host(), self.b.to_host(), of_c)
        found, findings, cost = here.simulated(seed)
        return (found if of_c is None else self.result(self._at(lambda _: found.values))), findings, cost
