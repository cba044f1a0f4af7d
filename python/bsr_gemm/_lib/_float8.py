"""The operator of layers with weights and activations of FP8: ``torch.ops.bsr_gemm.float8_linear``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _arrays, _gpu, _launch, _torch
from ._cpu import product_into
from ._native import Error
from ._operators import PLACES, operator
from ._places import resolved, shape_of

#: The type of weights and activations, and its largest number.
E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max
#: Below this largest magnitude a row counts as one of zeros.
SMALLEST = 1e-12
RESULTS = (torch.bfloat16, torch.float16, torch.float32)


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix in e4m3, with an f32 factor for each row: the largest magnitude of a row becomes the type's largest number."""
    scale = x.detach().abs().amax(-1).float().clamp(min=SMALLEST) / LARGEST
    return rounded(x.detach() / scale[:, None]), scale


def rounded(x: Tensor) -> Tensor:
    """To the nearest number of e4m3; what is beyond its range becomes its largest."""
    return x.clamp(-LARGEST, LARGEST).to(E4M3)


def epilogue_of(activation: str, bias: str | None) -> str:
    """The factors of the weight's rows and of the tokens, the bias, the activation."""
    total = "acc * ws * xs" + ("" if bias is None else " + bias")
    parameters = "ws: Rows<f32>, xs: Cols<f32>" + ("" if bias is None else f", bias: Rows<{bias}>")
    return f"|{parameters}| {total if activation == 'none' else f'{activation}({total})'}"


def _check(x, x_scale, weight, weight_scale, bias, found, activation, out_dtype) -> int:
    if x.dtype != E4M3:
        raise Error(f"x is of {x.dtype} and the weight of {weight.dtype}\n  help: both are of {E4M3}")
    outputs = _torch._check(x, weight, bias, found, False, activation)
    for name, scale, length, of in (
        ("x_scale", x_scale, x.shape[0], "rows of x"),
        ("weight_scale", weight_scale, outputs, "outputs"),
    ):
        _torch.check_vector(name, scale, length, of, x)
        if scale.dtype != torch.float32:
            raise Error(f"{name} is of {scale.dtype}\n  help: scales are of torch.float32")
    if out_dtype not in RESULTS:
        raise Error(f"a result of {out_dtype}\n  help: it is one of {', '.join(map(str, RESULTS))}")
    return outputs


def _fake(x, x_scale, weight, weight_scale, bias, pattern, activation, out_dtype, row_ptr=None, col_idx=None):
    found = shape_of(pattern, row_ptr, col_idx)
    outputs = _check(x, x_scale, weight, weight_scale, bias, found, activation, out_dtype)
    return x.new_empty((x.shape[0], outputs), dtype=out_dtype)


def _cpu(x, x_scale, weight, weight_scale, bias, pattern, activation, out_dtype, row_ptr=None, col_idx=None):
    found = resolved(pattern, row_ptr, col_idx)
    outputs = _check(x, x_scale, weight, weight_scale, bias, found, activation, out_dtype)
    out = x.new_empty((x.shape[0], outputs), dtype=out_dtype)
    inputs = [("ws", _arrays.rows(weight_scale, outputs)), ("xs", _arrays.cols(x_scale, x.shape[0]))]
    if bias is not None:
        inputs.append(("bias", _arrays.rows(bias, outputs)))
    epilogue = epilogue_of(activation, None if bias is None else _arrays.kind_of(bias))
    product_into(found, weight, x, out, False, (epilogue, inputs))
    return out


def _cuda(x, x_scale, weight, weight_scale, bias, pattern, activation, out_dtype, row_ptr=None, col_idx=None):
    _gpu.refuse_fork()
    found = resolved(pattern, row_ptr, col_idx)
    outputs = _check(x, x_scale, weight, weight_scale, bias, found, activation, out_dtype)
    out = x.new_empty((x.shape[0], outputs), dtype=out_dtype)
    if found.nnzb == 0:
        return _launch.without_blocks(out, bias, activation)
    further = [("ws", weight_scale), ("xs", x_scale)] + ([] if bias is None else [("bias", bias)])
    epilogue = epilogue_of(activation, None if bias is None else _arrays.kind_of(bias))
    # Tensor cores read 8-bit operands along K.
    x = x if x.stride(1) == 1 else x.contiguous()
    return _launch.fused(x, weight, out, found, epilogue, further)


def _backward(ctx: Any, dy: Tensor) -> Any:
    raise Error(
        "a layer in FP8 computes no gradient\n"
        "  help: train the layer that it was made from and convert it again, or run it under `torch.no_grad()`"
    )


operator(
    "float8_linear(Tensor x, Tensor x_scale, Tensor weight, Tensor weight_scale, Tensor? bias, str pattern,"
    f" str activation, ScalarType out_dtype, {PLACES}) -> Tensor",
    _fake,
    _cpu,
    _cuda,
    backward=_backward,
)
