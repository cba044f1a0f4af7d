"""Kernels of Triton, compiled for Hopper without a GPU and given the arguments of ``kernel[grid](..)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from . import _arrays, _native
from ._native import Error
from ._sanitize_arguments import Arguments, Param, TensorMap, described, is_array

#: Triton's names of the types of elements that are not called so there.
_TYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bool": "i1",
}
#: Bytes of the swizzle's span by Triton's number of it, which is the driver's.
_SPANS = (0, 32, 64, 128)


def is_triton(kernel: Any) -> bool:
    """Whether this is something of Triton's, without importing it."""
    return type(kernel).__module__.split(".")[0] == "triton"


class TritonLaunch:
    """A launch of a kernel of Triton's."""

    def __init__(self, kernel: Any, grid: Any, args: Any, named: dict[str, Any]) -> None:
        _check(kernel)
        values, options = _bound(kernel, args, named)
        compiled = _compiled(kernel, values, options)
        self.meta = compiled.metadata
        self.ptx = compiled.asm["ptx"]
        self.foreign = _native.Foreign(self.ptx, self.meta.name)
        self.grid = grid(values | options) if callable(grid) else grid
        self._expanded = _expanded(kernel, values, compiled)

    def arguments(self, blocks: int) -> Arguments:
        """What the parameters of the PTX are given by a grid of so many programs."""
        declared = [Param(*param) for param in self.foreign.params]
        given, scratch = self._expanded, declared[len(self._expanded) :]
        if len(given) > len(declared) or len(scratch) > 2 or any(param.bytes != 8 for param in scratch):
            raise Error(
                f"Triton's PTX has the parameters {', '.join(map(str, declared))}, and the arguments make "
                f"{len(given)} of them: {', '.join(name for name, _ in given)}\n"
                "  help: this version of Triton passes arguments in another way; sanitize its PTX: kernel.asm['ptx']"
            )
        arguments = Arguments()
        for param, (name, value) in zip(declared, given):
            arguments.add(name.split(".")[0], name, param, value)
        for param, of in zip(scratch, ("global_scratch", "profile_scratch")):
            size, align = getattr(self.meta, f"{of}_size", 0), getattr(self.meta, f"{of}_align", 1)
            arguments.add_scratch(param, size * blocks * self.meta.num_ctas, align)
        return arguments


def _check(kernel: Any) -> None:
    """Refuses what no single kernel comes of."""
    import triton

    if type(kernel) is triton.runtime.JITFunction:
        return
    kind = type(kernel).__name__
    if hasattr(kernel, "asm") or kind.startswith("Gluon"):
        remedy = "pass the text of the compiled kernel, its asm['ptx']"
    elif kind == "InterpretedFunction":
        remedy = "unset TRITON_INTERPRET"
    else:
        remedy = "pass the function within, kernel.fn, and the constants of one configuration"
    raise Error(f"the kernel is a {kind} of Triton and no function under @triton.jit alone\n  help: {remedy}")


def _bound(kernel: Any, args: Any, named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by name, and what is for the compiler."""
    from triton.backends.nvidia.compiler import CUDAOptions

    names = list(kernel.arg_names)
    if not isinstance(args, Mapping) and len(args) > len(names):
        raise Error(f"{len(args)} arguments are given, and the kernel takes {len(names)}: {', '.join(names)}")
    values = dict(args) if isinstance(args, Mapping) else dict(zip(names, args))
    known, options = {option.name for option in fields(CUDAOptions)}, {}
    for name, value in named.items():
        if name in values:
            raise Error(f"`{name}` is given twice")
        (values if name in names or name not in known else options)[name] = value
    unknown = [name for name in values if name not in names]
    if unknown:
        raise Error(
            f"`{unknown[0]}` is no argument of the kernel and no option of Triton's\n  help: it takes {', '.join(names)}"
        )
    for param in kernel.params:
        if param.name not in values and param.has_default:
            values[param.name] = param.default
    missing = [name for name in names if name not in values]
    if missing:
        given = ", ".join(values) or "none"
        raise Error(f"{', '.join(missing)}: not given\n  help: the kernel takes {', '.join(names)}; given are {given}")
    return {name: values[name] for name in names}, options


def _compiled(kernel: Any, values: dict[str, Any], options: dict[str, Any]) -> Any:
    """The kernel for these arguments, as a launch on a Hopper GPU would compile it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants, attributes = {}, {}, {}
    for number, param in enumerate(kernel.params):
        value = values[param.name]
        kind, is_divisible = ("constexpr", False) if param.is_constexpr else _specialized(param, value)
        signature[param.name] = kind
        if kind == "constexpr":
            constants[(number,)] = value
        elif is_divisible:
            attributes[(number,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def _specialized(param: Any, value: Any) -> tuple[str, bool]:
    """The type of an argument, and whether the compiler may take it for a multiple of 16."""
    value = value.item() if isinstance(value, np.generic) else value
    special = not param.do_not_specialize
    aligned = special and not param.do_not_specialize_on_alignment
    if value is None:
        return "constexpr", False
    if is_array(value):
        name = str(value.dtype).removeprefix("torch.")
        pointer = "*k" if param.is_const else "*"
        address = _arrays.address_of(_arrays.as_array(value))
        return pointer + _TYPES.get(name, name.replace("uint", "u").replace("int", "i")), aligned and address % 16 == 0
    if _is_descriptor(value):
        from triton.runtime.jit import mangle_type

        return mangle_type(value), False
    annotated = param.annotation_type
    if isinstance(value, bool):
        return annotated or "u1", False
    if isinstance(value, int):
        wide = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        if value == 1 and special and not annotated:
            return "constexpr", False
        return annotated or wide, aligned and value % 16 == 0
    if isinstance(value, float):
        return annotated or "fp32", False
    raise Error(f"`{param.name}` is {described(value)}\n  help: pass an array, a tensor descriptor or a number")


def _is_descriptor(value: Any) -> bool:
    return type(value).__name__ == "TensorDescriptor" and is_triton(value)


def _expanded(kernel: Any, values: dict[str, Any], compiled: Any) -> list[tuple[str, Any]]:
    """The arguments that are parameters of the PTX, by name: of a descriptor its map, its extents and its strides."""
    given: list[tuple[str, Any]] = []
    maps = list(getattr(compiled.metadata, "tensordesc_meta", None) or [])
    signature = compiled.src.signature
    for name in kernel.arg_names:
        value = values[name]
        if signature[name] == "constexpr":
            continue
        if not _is_descriptor(value):
            given.append((name, value))
            continue
        given.append((name, _map_of(name, value, maps.pop(0) if maps else None)))
        for what in ("shape", "strides"):
            given += [(f"{name}.{what}[{d}]", int(extent)) for d, extent in enumerate(getattr(value, what))]
    return given


def _map_of(name: str, descriptor: Any, layout: dict[str, Any] | None) -> TensorMap:
    """The tensor map that Triton's launcher makes of a descriptor."""
    if layout is None or layout.get("fp4_padded") or layout.get("is_im2col"):
        raise Error(
            f"`{name}` is a descriptor that is not tiled\n  help: tiled descriptors of types of 8 bits and more are modelled"
        )
    size = descriptor.base.dtype.itemsize
    return TensorMap(
        descriptor.base,
        box=_innermost_first(layout["block_size"]),
        swizzle=_SPANS[layout["swizzle"]],
        dims=_innermost_first(descriptor.shape),
        strides=[stride * size for stride in _innermost_first(descriptor.strides)[1:]],
        fill_nan=descriptor.padding == "nan",
    )


def _innermost_first(sizes: Sequence[int]) -> list[int]:
    return [int(size) for size in reversed(list(sizes))]
