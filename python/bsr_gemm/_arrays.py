"""Arrays of NumPy and PyTorch as the native half takes them: address, element type, shape, strides."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._native import Error

#: Element types by the names that NumPy (with ml_dtypes) and PyTorch give them.
KINDS = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "i8",
    "int32": "i32",
}
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "i32": 4}

Matrix = tuple[int, str, int, int, int, int]


def is_imported() -> bool:
    """Whether the program has imported PyTorch."""
    return "torch" in sys.modules


def is_tensor(array: Any) -> bool:
    """Whether this is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_array(array: Any) -> Any:
    """A NumPy array or a tensor: itself, or a view through DLPack or ``__cuda_array_interface__``."""
    if is_tensor(array) or isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__dlpack__"):
        device_type = array.__dlpack_device__()[0]
        if device_type == 1 and "torch" not in sys.modules:
            return _numpy_view(array)
        import torch

        return torch.from_dlpack(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _on_gpu(array)
    return np.asarray(array)


def _numpy_view(array: Any) -> Any:
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):
        # A type that DLPack of NumPy lacks: bfloat16, which NumPy has from ml_dtypes.
        return np.asarray(array)


def _on_gpu(array: Any) -> Any:
    """A view of an array on a GPU that knows no DLPack; what its library enqueued before is waited for on the GPU."""
    import torch

    if not torch.cuda.is_available():
        raise Error(
            f"a {type(array).__name__} says by `__cuda_array_interface__` that it is on a GPU, and PyTorch finds none\n"
            "  help: install PyTorch with CUDA, or pass an array of NumPy"
        )
    tensor = torch.as_tensor(array, device="cuda")
    stream = array.__cuda_array_interface__.get("stream")
    if stream is not None:
        # 1 and 2 are the default streams, of all threads and of one.
        producer = torch.cuda.ExternalStream(stream) if stream > 2 else torch.cuda.default_stream(tensor.device)
        torch.cuda.current_stream(tensor.device).wait_stream(producer)
    return tensor


_kinds: dict[Any, str] = {}


def kind_of(array: Any) -> str:
    """The element type in the words of a spec: ``bf16`` for instance."""
    known = _kinds.get(array.dtype)
    if known is not None:
        return known
    name = str(array.dtype).removeprefix("torch.")
    kind = KINDS.get(name)
    if kind is None:
        raise Error(f"an array of {name} cannot be multiplied\n  help: convert it to one of {', '.join(KINDS)}")
    _kinds[array.dtype] = kind
    return kind


def address_of(array: Any) -> int:
    """The address of the first element."""
    return array.data_ptr() if is_tensor(array) else array.__array_interface__["data"][0]


def strides_of(array: Any) -> tuple[int, ...]:
    """Elements from one place to the next along each dimension."""
    if is_tensor(array):
        return tuple(array.stride())
    return tuple(stride // array.itemsize for stride in array.strides)


def matrix(array: Any) -> Matrix:
    """A matrix of two dimensions."""
    rows, cols = array.shape
    row_stride, col_stride = strides_of(array)
    return address_of(array), kind_of(array), rows, cols, row_stride, col_stride


def values(array: Any) -> Matrix:
    """The values of stored blocks, one block below another."""
    blocks, bm, bk = array.shape
    return address_of(array), kind_of(array), blocks * bm, bk, bk, 1


def rows(vector: Any, count: int) -> Matrix:
    """A vector with a value for each row of a matrix."""
    return address_of(vector), kind_of(vector), count, 1, strides_of(vector)[0], 0


def cols(vector: Any, count: int) -> Matrix:
    """A vector with a value for each column of a matrix."""
    return address_of(vector), kind_of(vector), 1, count, 0, strides_of(vector)[0]


def scalar(number: float) -> tuple[np.ndarray, Matrix]:
    """A number, and the array that keeps it alive."""
    held = np.array([number], dtype=np.float64)
    return held, (address_of(held), "f64", 1, 1, 0, 0)


def empty_like(array: Any, shape: tuple[int, ...], kind: str | None = None) -> Any:
    """An array of the same library, on the same device."""
    if is_tensor(array):
        import torch

        return torch.empty(shape, dtype=torch_dtype(kind) if kind else array.dtype, device=array.device)
    return np.empty(shape, dtype=numpy_dtype(kind) if kind else array.dtype)


def torch_dtype(kind: str) -> Any:
    """The dtype of PyTorch."""
    import torch

    return getattr(torch, next(name for name, known in KINDS.items() if known == kind))


def numpy_dtype(kind: str) -> Any:
    """The dtype of NumPy; of types that it lacks, that of ml_dtypes."""
    name = next(name for name, known in KINDS.items() if known == kind)
    if hasattr(np, name):
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Error(f"NumPy has no {name}\n  help: `pip install ml_dtypes`, or use tensors of PyTorch") from None
    return np.dtype(getattr(ml_dtypes, name))
