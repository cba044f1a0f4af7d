"""Arguments of a launch on the simulator: arrays, numbers, structures and tensor maps as a kernel's parameters take them."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _native
from ._native import Error

#: Element types of the simulator by the names of NumPy (with ml_dtypes) and PyTorch.
_ELEMENTS = _arrays.KINDS | {
    "bool": "u8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
}
#: The floating-point types of parameters of so many bytes.
_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}
#: What an address is a multiple of, and of no larger power of two: what compilers assume of an array.
_ALIGNED = 16

_Passed = bytes | int | tuple


class Param(NamedTuple):
    """A parameter as the PTX declares it."""

    name: str
    bytes: int
    type: str
    role: str

    def __str__(self) -> str:
        return f"`{self.name}` .{self.type}{f'[{self.bytes}]' if self.type == 'b8' and self.bytes > 1 else ''}"


@dataclass(frozen=True)
class TensorMap:
    """A tensor map of an array, passed by value, as ``cuTensorMapEncodeTiled`` takes it: dimensions innermost first.

    `TensorMap.im2col` makes one as ``cuTensorMapEncodeIm2col`` takes it.
    """

    array: Any
    box: Sequence[int]
    """Elements of a copy in each dimension; in im2col mode channels per pixel and pixels per column."""
    swizzle: int = 0
    """Bytes of the swizzle's span: 0, 32, 64 or 128."""
    dims: Sequence[int] | None = None
    """Extents in elements; of the array by default."""
    strides: Sequence[int] | None = None
    """Bytes from one line, plane and so on to the next; dense by default."""
    element_strides: Sequence[int] | None = None
    fill_nan: bool = False
    """Elements outside are NaN and not zero."""
    corners: tuple[Sequence[int], Sequence[int]] | None = None
    """The lower and the upper corner of im2col mode."""

    @classmethod
    def im2col(
        cls,
        array: Any,
        *,
        pixel_box_lower_corner: Sequence[int],
        pixel_box_upper_corner: Sequence[int],
        channels_per_pixel: int,
        pixels_per_column: int,
        **others: Any,
    ) -> TensorMap:
        """A tensor map in im2col mode, of images whose channels are innermost: [N, W, C], [N, H, W, C] or [N, D, H, W, C].

        The corners have one number for each spatial dimension, W first: the first pixel at which the corner of a filter
        may be (minus the padding), and the last one, counted from the image's last pixel (the padding minus the filter's
        size minus 1). A copy has ``pixels_per_column`` of these pixels, and ``channels_per_pixel`` elements of each. What
        is left out is that of `TensorMap`; ``element_strides`` are the steps of the filter, the channels' first.

        >>> x = np.zeros((2, 9, 11, 8), np.float32)                                            # N, H, W, C
        >>> corners = {"pixel_box_lower_corner": (-1, -1), "pixel_box_upper_corner": (-1, -1)}    # 3 x 3, padding 1
        >>> TensorMap.im2col(x, **corners, channels_per_pixel=8, pixels_per_column=32).box
        (8, 32)
        """
        corners = (pixel_box_lower_corner, pixel_box_upper_corner)
        return cls(array, (channels_per_pixel, pixels_per_column), corners=corners, **others)


@dataclass
class _Held:
    """An array in the simulator's memory."""

    name: str
    array: Any
    start: int
    size: int
    element: str
    order: list[int]
    """Its dimensions as they lie in memory, the innermost last."""
    align: int
    compared: bool
    keys: list[Hashable]

    @property
    def shape(self) -> list[int]:
        return [self.array.shape[d] for d in self.order]

    def left(self, data: bytes) -> Any:
        """An array like it of other bytes."""
        inverse = [self.order.index(d) for d in range(len(self.order))]
        if _arrays.is_tensor(self.array):
            import torch

            if not data:
                return torch.empty_like(self.array)
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(self.array.dtype)
            return flat.reshape(self.shape).permute(inverse)
        return np.frombuffer(bytearray(data), dtype=self.array.dtype).reshape(self.shape).transpose(inverse)


class Arguments:
    """What a launch is given, in order. An array that is given twice is one buffer."""

    def __init__(self) -> None:
        self.passed: list[_Passed] = []
        self._held: list[_Held] = []

    def add(self, key: Hashable, name: str, param: Param, given: Any) -> None:
        """Passes one argument to a parameter."""
        self.passed.append(self._pass(key, name, param, given))

    def add_scratch(self, param: Param, size: int, align: int) -> None:
        """Passes zeroed memory of the compiler's own, or no address."""
        if size == 0:
            self.passed.append(bytes(param.bytes))
        else:
            scratch = np.zeros(size, np.uint8)
            self._held.append(_Held(param.name, scratch, -1, size, "u8", [0], max(align, _ALIGNED), False, []))
            self.passed.append(len(self._held) - 1)

    def native(self) -> list[tuple[str, int, int, str, list[int], int, bool]]:
        """The arrays as the native half takes them."""
        _native.ask_for(min(3 * sum(held.size for held in self._held), 2**63 - 1), "a simulated launch of these arrays")
        return [
            (held.name, _arrays.address_of(held.array), held.size, held.element, held.shape, held.align, held.compared)
            for held in self._held
        ]

    def told(self) -> str:
        """The buffers by the numbers that they have in messages."""
        return ", ".join(f"{number} {held.name}" for number, held in enumerate(self._held)) or "none"

    def left(self, data: list[bytes]) -> dict[Hashable, Any]:
        """What the arrays hold after a launch, by their keys."""
        arrays = {}
        for held, found in zip(self._held, data):
            result = held.left(found) if held.keys else None
            arrays |= dict.fromkeys(held.keys, result)
        return arrays

    def _pass(self, key: Hashable, name: str, param: Param, given: Any) -> _Passed:
        if isinstance(given, TensorMap):
            return self._map(key, name, param, given)
        if is_array(given):
            if param.type == "b8" and param.role == "value":
                return _structure(name, param, given)
            if param.bytes != 8:
                raise Error(f"{name} is {described(given)}, and the parameter {param} holds no address")
            return self._hold(key, name, given)
        if given is None and param.bytes == 8:
            return bytes(8)
        if param.type == "b8" and param.bytes > 1:
            return _structure(name, param, given)
        return _number(name, param, given)

    def _map(self, key: Hashable, name: str, param: Param, given: TensorMap) -> _Passed:
        if param.bytes != 128:
            raise Error(f"{name} is a tensor map of 128 bytes, and the parameter is {param}")
        number = self._hold(key, name, given.array)
        held = self._held[number]
        if held.order != sorted(held.order):
            raise Error(f"{name}: the array of a tensor map is not in C order\n  help: pass its transpose")
        sizes = (given.dims, given.strides, given.box, given.element_strides)
        limits = (2**63, 2**63, 2**32, 2**32)
        names = ("dims", "strides", "box", "element_strides")
        told = [_numbers(name, *one, 0) for one in zip(names, sizes, limits)]
        corners = None
        if given.corners is not None:
            held_by = ("pixel_box_lower_corner", "pixel_box_upper_corner")
            corners = tuple(_numbers(name, *one, 2**31, -(2**31)) for one in zip(held_by, given.corners))
        return (number, *told, corners, int(given.swizzle), bool(given.fill_nan))

    def _hold(self, key: Hashable, name: str, given: Any) -> int:
        """The number of an array's buffer."""
        array = _host(name, given)
        element = _ELEMENTS.get(str(array.dtype).removeprefix("torch."))
        if element is None:
            raise Error(f"{name} is {described(array)}\n  help: the element types are {', '.join(_ELEMENTS)}")
        order = _order(tuple(array.shape), _arrays.strides_of(array))
        if order is None:
            remedy = "contiguous()" if _arrays.is_tensor(array) else "copy()"
            raise Error(
                f"{name} is {described(array)} with strides {list(_arrays.strides_of(array))}: its elements do not lie one "
                f"after the other\n  help: pass {name}.{remedy}"
            )
        start, size = _arrays.address_of(array), math.prod(array.shape) * array.dtype.itemsize
        for number, held in enumerate(self._held):
            if (held.start, held.size) == (start, size):
                held.keys.append(key)
                return number
            if size and held.size and held.start < start + size and start < held.start + held.size:
                raise Error(f"{name} and {held.name} are parts of one array that overlap\n  help: pass copies")
        self._held.append(_Held(name, array, start, size, element, order, _ALIGNED, True, [key]))
        return len(self._held) - 1


def is_array(given: Any) -> bool:
    """Whether this is passed by its address."""
    if isinstance(given, np.generic):
        return False
    return isinstance(given, np.ndarray) or _arrays.is_tensor(given) or hasattr(given, "__dlpack__")


def described(given: Any) -> str:
    """An argument in words."""
    if is_array(given):
        shape = " x ".join(map(str, given.shape)) or "one element"
        return f"an array of {str(given.dtype).removeprefix('torch.')} ({shape})"
    return f"{given!r}" if isinstance(given, (int, float)) else f"a {type(given).__name__}"


def _host(name: str, given: Any) -> Any:
    """An array on this machine's memory."""
    if _arrays.is_tensor(given) and given.device.type != "cpu":
        raise Error(
            f"{name} is on {given.device}, and the simulator runs on the CPU\n"
            f"  help: pass {name}.cpu(); the report has the results"
        )
    array = _arrays.as_array(given)
    return array.detach() if _arrays.is_tensor(array) else array


def _order(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int] | None:
    """The dimensions as they lie in memory, the innermost last; None if there are gaps or repetitions."""
    if math.prod(shape) <= 1:
        return list(range(len(shape)))
    # Dimensions of one element lie anywhere.
    long = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: -strides[d])
    step = 1
    for d in reversed(long):
        if strides[d] != step:
            return None
        step *= shape[d]
    if long == sorted(long):
        return list(range(len(shape)))
    return [d for d in range(len(shape)) if shape[d] == 1] + long


def _numbers(name: str, what: str, given: Any, end: int, least: int) -> list[int] | None:
    """The whole numbers of a tensor map, from the least one to one before the end."""
    if given is None:
        return None
    try:
        numbers = [operator.index(number) for number in given]
    except TypeError:
        raise Error(
            f"{name}: {what} of the tensor map is {given!r}\n  help: a list of whole numbers, innermost dimension first"
        ) from None
    wrong = next((number for number in numbers if not least <= number < end), None)
    if wrong is not None:
        raise Error(
            f"{name}: {what} of the tensor map is {numbers}\n  help: numbers from {least} to {end - 1}; {wrong} is none"
        )
    return numbers


def _structure(name: str, param: Param, given: Any) -> bytes:
    """The bytes of a structure."""
    try:
        data = given.numpy().tobytes() if _arrays.is_tensor(given) else memoryview(given).tobytes()
    except TypeError:
        raise Error(f"{name} is {described(given)}, and the parameter is {param}\n  help: pass its bytes") from None
    if len(data) != param.bytes:
        raise Error(f"{name} has {len(data)} bytes, and the parameter is {param}")
    return data


def _number(name: str, param: Param, given: Any) -> bytes:
    """The bytes of a number."""
    number = given.item() if isinstance(given, np.generic) else given
    if not isinstance(number, (int, float)):
        raise Error(f"{name} is {described(given)}, and the parameter is {param}\n  help: pass an array or a number")
    is_float = param.type.startswith("f")
    if isinstance(number, float) and not is_float and not (param.type.startswith("b") and param.bytes >= 4):
        raise Error(f"{name} is {number!r}, and the parameter {param} is an integer\n  help: pass int({number!r})")
    if is_float or isinstance(number, float):
        return np.asarray(number, _FLOATS[param.bytes]).tobytes()
    bits = 8 * param.bytes
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise Error(f"{name} is {number}, and the parameter {param} has {bits} bits")
    return (number % (1 << bits)).to_bytes(param.bytes, "little")
