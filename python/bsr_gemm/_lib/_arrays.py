"""Arrays of NumPy and PyTorch as the native half takes them: address, element type, shape, strides."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from . import _native
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
#: Bytes that are taken without asking whether the machine has them.
FEW = 1 << 26
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "i32": 4}

Matrix = tuple[int, str, int, int, int, int]


def in_graph() -> bool:
    """Whether PyTorch's compiler traces the program, so that the elements of tensors are not known."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def is_tensor(array: Any) -> bool:
    """Whether this is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def check_dimensions(name: str, tensor: Any, order: str) -> None:
    """Refuses what is no tensor of PyTorch with four dimensions, in an order that is said."""
    if not is_tensor(tensor) or tensor.dim() != 4:
        found = f"{tensor.dim()} dimensions" if is_tensor(tensor) else f"a {type(tensor).__name__}"
        raise Error(f"{name} is {found}\n  help: a tensor of PyTorch with four dimensions, {order}")


def as_array(array: Any) -> Any:
    """A dense NumPy array or a tensor: itself, or a view through DLPack or ``__cuda_array_interface__``."""
    if isinstance(array, np.ndarray):
        return array if array.flags.aligned else array.copy()
    if is_tensor(array):
        if array.layout is not sys.modules["torch"].strided:
            raise _is_sparse(f"a tensor of layout {array.layout}", "to_dense()")
        # The imaginary part of a conjugate has the other sign in memory.
        return array.resolve_neg() if not in_graph() and array.is_neg() else array
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(array):
        raise _is_sparse(f"a sparse {array.format} matrix of scipy", "toarray()")
    if hasattr(array, "__dlpack__"):
        device_type = array.__dlpack_device__()[0]
        if device_type == 1 and "torch" not in sys.modules:
            return _numpy_view(array)
        import torch

        return torch.from_dlpack(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _on_gpu(array)
    return np.asarray(array)


def _is_sparse(found: str, dense: str) -> Error:
    return Error(
        f"{found} was passed where a dense array is expected\n  help: `x.{dense}`; for a BSR matrix "
        "`bsr_gemm.BsrMatrix.from_torch` or `.from_scipy`"
    )


def is_for_torch(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of a conversion name a device or a type of PyTorch."""
    torch = sys.modules.get("torch")
    first = args[0] if args else None
    if "device" in kwargs or (isinstance(first, str) and first.split(":")[0] in ("cpu", "cuda")):
        return True
    types = () if torch is None else (torch.dtype, torch.device, torch.Tensor)
    return isinstance(first, types) or isinstance(kwargs.get("dtype"), types)


def host(array: Any) -> np.ndarray:
    """An array of NumPy, of a tensor a copy where it is on a GPU."""
    return array.detach().cpu().numpy() if is_tensor(array) else np.asarray(array)


def as_tensor(array: np.ndarray) -> Any:
    """A tensor of the same memory, of a type that NumPy has from ml_dtypes too."""
    import torch

    kind = KINDS.get(str(array.dtype))
    if kind in ("bf16", "e4m3", "e5m2"):
        return torch.from_numpy(array.view(np.int16 if BYTES[kind] == 2 else np.uint8)).view(torch_dtype(kind))
    return torch.from_numpy(array)


def ask_for(what: str, shape: tuple[int, ...], like: Any, kind: str | None = None) -> None:
    """Refuses an array of the host that this machine has no memory for; of a GPU, PyTorch says so itself."""
    if is_tensor(like) and like.device.type != "cpu":
        return
    size = math.prod(shape) * BYTES[kind or kind_of(like)]
    if size > FEW and not in_graph():
        _native.ask_for(min(size, 2**63 - 1), what)


def check_stored(values: Any, pattern: Any) -> None:
    """Refuses values that are not those of the blocks of a pattern."""
    expected = (pattern.nnzb, *pattern.block)
    if tuple(values.shape) != expected:
        raise Error(
            f"the values are {' x '.join(map(str, values.shape))}, but {pattern.nnzb} blocks of "
            f"{pattern.block[0]} x {pattern.block[1]} are {' x '.join(map(str, expected))}\n"
            "  help: store every block whole, blocks that extend beyond the edge of the matrix too"
        )


def is_contiguous(array: Any) -> bool:
    """Whether the elements are contiguous, with the last dimension innermost."""
    return array.is_contiguous() if is_tensor(array) else array.flags.c_contiguous


def contiguous(array: Any) -> Any:
    """The array, or a copy whose elements are one after the other."""
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)


def stored(values: Any, pattern: Any) -> tuple[Any, tuple[int, str, int]]:
    """The values of a pattern's blocks as the native half takes them - address, type, number - and what keeps them alive."""
    check_stored(values, pattern)
    alive = contiguous(values)
    return alive, (address_of(alive), kind_of(alive), math.prod(alive.shape))


def index(places: np.ndarray, like: Any) -> Any:
    """Numbers, or a mask, to index an array of NumPy with, or a tensor on its device."""
    places = places if places.dtype == bool else places.astype(np.int64)
    return as_tensor(places).to(like.device) if is_tensor(like) else places


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
            f"a {type(array).__name__} is on a GPU according to `__cuda_array_interface__`, and PyTorch finds no GPU\n"
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
_kinds_of_numpy: dict[Any, str] = {}


def kind_of(array: Any) -> str:
    """The element type in the words of a spec: ``bf16`` for instance."""
    # PyTorch's compiler does not follow a dictionary with types of NumPy among its keys.
    seen = _kinds if is_tensor(array) else _kinds_of_numpy
    known = seen.get(array.dtype)
    if known is not None:
        return known
    name = str(array.dtype).removeprefix("torch.")
    kind = KINDS.get(name)
    if kind is None:
        raise Error(f"an array of {name} cannot be multiplied\n  help: convert it to one of {', '.join(KINDS)}")
    seen[array.dtype] = kind
    return kind


#: Element types whose kernels have no epilogue and no transposed product.
WIDE = ("f32", "f64")
#: The longest side of blocks that have kernels of their own, for any layout of the dense matrices.
SMALL = 8


def by_rows(kind: str, block: tuple[int, int]) -> bool:
    """Whether kernels on a GPU read and write the dense matrices of a product `w @ x` row by row alone."""
    return kind == "f32" and max(block) > SMALL


def stores_elements(kind: str, block: tuple[int, int]) -> bool:
    """Whether kernels on a GPU write the result of a product element by element: those of small blocks do, and nothing behind a line."""
    return kind in WIDE and max(block) <= SMALL


def in_tf32(kind: str, block: tuple[int, int], capability: tuple[int, int]) -> bool:
    """Whether a GPU multiplies in TF32: PyTorch allows it (``torch.set_float32_matmul_precision``), and kernels of any layout have the block."""
    if kind != "f32" or capability < (8, 0) or any(side % 16 for side in block):
        return False
    torch = sys.modules.get("torch")
    return torch is not None and torch.get_float32_matmul_precision() != "highest"


def result_kind(kind: str) -> str:
    """The element type of a product of two matrices of this one."""
    return {"e4m3": "bf16", "e5m2": "bf16", "i8": "i32"}.get(kind, kind)


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
    alive = np.array([number], dtype=np.float64)
    return alive, (address_of(alive), "f64", 1, 1, 0, 0)


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
