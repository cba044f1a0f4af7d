"""Launches of a program's own kernels on NVIDIA GPUs."""

from __future__ import annotations

from typing import Any

from . import _gpu
from ._kernel_inputs import tensors_of
from ._launch import enqueue
from ._operands import Result, laid, operand_of, values_of


def launch_kernel(kernel: Any, call: Any) -> Any:
    """A call of a kernel of the program's own."""
    index, native = call.a.device.index, kernel._native
    with _gpu.OnDevice(index):
        loaded = _gpu.cached(_gpu._loaded, (index, kernel.spec), lambda: _gpu.gpu_of(index).load(native))
        out, second = call.empty()
        call.inputs()  # Refuses what does not fit.
        further = tensors_of(kernel._inputs, call.arguments, call.a.device, native.layouts[2])
        result = None
        if native.op == "sdd":
            stored, (left_operand, left) = out, _operand(call.a, native.layouts[0])
            right_operand, right = _operand(call.b, native.layouts[1])
        else:
            stored, dense = (call.b, call.a) if native.op == "dds" else (call.a, call.b)
            left_operand, left = _operand(dense, native.layouts[0 if native.op == "dds" else 1])
            stored, result = values_of(stored), Result(out, native.layouts[2] == "col")
            right_operand, right = None, result.argument
        enqueue(loaded, call.pattern, stored, (left, right), further, second)
        if result is not None:
            result.finish()
        del left_operand, right_operand
    return call.results(out, second)


def _operand(x: Any, layout: str) -> tuple:
    return operand_of(laid(x, layout), layout == "col")
