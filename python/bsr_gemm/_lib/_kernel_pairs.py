"""Calls of a program's own kernels on two block-sparse matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _native
from ._blocks import gather
from ._cpu import product_into
from ._kernel_inputs import inputs_of, named, tensors_of
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
    #: What the epilogue reads, by name.
    arguments: dict[str, Any]

    @classmethod
    def of(cls, kernel: Any, args: tuple, kwargs: dict[str, Any]) -> PairsCall:
        native, signature = kernel._native, kernel._signature
        names = (signature.a, signature.b)
        like = kwargs.pop("like", None)
        arguments = named(signature, args, kwargs)
        a, b = (as_matrix(arguments.pop(name), f"`{name}`") for name in names)
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
        pattern = pattern_of_product(a, b, like) if native.op == "sss" else None
        if pattern is not None and pattern.on_device and any(kind.startswith("Bsr") for _, kind in kernel._inputs):
            raise Error(
                "an epilogue reads values of blocks of a pattern that lives on a device\n  help: `to_host()` of both factors"
            )
        call = cls(kernel, a, b, pattern, arguments)
        call.inputs()
        return call

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.a.shape[0], self.b.shape[1]

    def inputs(self) -> tuple[list, list]:
        """What the epilogue reads, as it lies, and the objects to keep alive."""
        return inputs_of(self.kernel._inputs, self.arguments, (self.a.values, self.pattern, self.shape))

    def second(self) -> Any:
        """A place for the second result, where there is one."""
        return _arrays.empty_like(self.a.values, (self.shape[0],), "f32") if self.kernel._native.second else None

    def empty(self) -> Any:
        """A place for the result."""
        kind, like = self.kernel._native.dtypes[2], self.a.values
        if self.pattern is not None:
            out = _arrays.empty_like(like, (self.pattern.nnzb, *self.pattern.block), kind)
            # Places without a block are not written.
            return out.zero_() if self.pattern.on_device else out
        m, n = self.shape
        is_col = self.kernel._native.layouts[2] == "col"
        return _arrays.empty_like(like, (n, m), kind).T if is_col else _arrays.empty_like(like, (m, n), kind)

    def result(self, out: Any, second: Any = None) -> Any:
        """As the caller gets it."""
        out = out if self.pattern is None else BsrMatrix(out, self.pattern, check=False)
        return out if second is None else (out, second)

    def run(self) -> Any:
        """The product, where the values are."""
        values = self.a.values
        if _arrays.is_tensor(values) and values.is_cuda:
            return self._on_gpu()
        if self.kernel._native.epilogue is not None:
            return self._with_epilogue()
        whole, kind, a = self.b.to_dense(), self.kernel._native.dtypes[2], self.a.to_host()
        out = _arrays.empty_like(values, (self.b.shape[1], self.a.shape[0]), kind)
        product_into(a.pattern, a.values, whole.T, out, False, None)
        return out.T if self.pattern is None else self.result(self._at(lambda of: gather(out.T, of)))

    def _with_epilogue(self) -> Any:
        """The same on the CPU, by way of a dense B."""
        native, a, whole = self.kernel._native, self.a.to_host(), self.b.to_dense()
        inputs, alive = self.inputs()
        second, epilogue = self.second(), (native.epilogue, inputs)
        last = None if second is None else _arrays.rows(second, len(second))
        if self.pattern is None:
            out = self.empty()
            kept, blocks = _arrays.stored(a.values, a.pattern)
            _native.multiply(
                a.pattern._native, False, blocks, _arrays.matrix(whole), _arrays.matrix(out), epilogue, last
            )
            del kept, alive
            return self.result(out, second)

        left = self.a.to_dense()

        def at(of: Any) -> Any:
            out = _arrays.empty_like(a.values, (of.nnzb, *of.block), native.dtypes[2])
            factors = _arrays.matrix(left), _arrays.matrix(whole)
            _native.multiply_sddmm(of._native, *factors, _arrays.values(out), epilogue, None)
            return out

        result = self.result(self._at(at))
        del alive
        return result

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

        index, native, out, second = self.a.values.device.index, self.kernel._native, self.empty(), self.second()
        if out.numel() == 0 or (native.epilogue is None and 0 in (self.a.nnzb, self.b.nnzb)):
            return self.result(out.zero_(), second)
        further = tensors_of(self.kernel._inputs, self.arguments, self.a.values.device, native.layouts[2])
        factors = ((self.a.values, self.a.pattern), (self.b.values, self.b.pattern))
        with _gpu.OnDevice(index):
            loaded = _gpu.cached(_gpu._loaded, (index, self.kernel.spec), lambda: _gpu.gpu_of(index).load(native))
            if self.pattern is not None:
                launched(loaded, factors, self.pattern, (out.data_ptr(), 0), further)
                return self.result(out)
            is_col = native.layouts[2] == "col"
            place = Result(out, is_col)
            launched(loaded, factors, None, (place.argument[0], place.argument[4]), further, second, is_col)
            place.finish()
        return self.result(out, second)

    def simulated(self, seed: int) -> tuple:
        """The product as the simulator computed it, its second result, findings and cost."""
        if self.a.pattern.on_device:
            return self._simulated_here(seed)
        a, b = (_arrays.contiguous(matrix.values) for matrix in (self.a, self.b))
        of_c = None if self.pattern is None else self.pattern._native
        patterns = (self.a.pattern._native, self.b.pattern._native, of_c)
        native = self.kernel._native
        inputs, alive = self.inputs()
        operands = (_arrays.values(a), _arrays.values(b), inputs)
        data, rows, findings, cost = _native.simulate_pairs(native, patterns, *operands, seed)
        del alive
        out = self.empty()
        if _arrays.is_tensor(a):
            import torch

            found = torch.frombuffer(bytearray(data), dtype=out.dtype).reshape(tuple(out.shape)) if data else out
        else:
            found = np.frombuffer(bytearray(data), dtype=out.dtype).reshape(out.shape)
        return self.result(found), rows, findings, cost

    def _simulated_here(self, seed: int) -> tuple:
        """The same of patterns on a device, as they are now."""
        of_c = None if self.pattern is None else self.pattern.to_pattern()
        here = PairsCall(self.kernel, self.a.to_host(), self.b.to_host(), of_c, self.arguments)
        found, *rest = here.simulated(seed)
        return (found if of_c is None else self.result(self._at(lambda _: found.values))), *rest
