"""What a block-sparse matrix has of a tensor: conversions, copies, gradients, scaling."""

from __future__ import annotations

from typing import Any

from . import _arrays, _convert
from ._native import Error


class LikeTensor:
    """Methods of ``BsrMatrix`` that give a matrix with the same pattern and other values, or one of another library."""

    values: Any
    with_values: Any
    _with: Any
    transpose: Any
    to_dense: Any

    def t(self) -> Any:
        """As :meth:`transpose`."""
        return self.transpose()

    def toarray(self) -> Any:
        """As :meth:`to_dense`."""
        return self.to_dense()

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same matrix elsewhere or of another type: what ``Tensor.to`` takes, or a dtype of NumPy.

        A device or a dtype of PyTorch makes a matrix of tensors of one of arrays.
        """
        if _arrays.is_tensor(self.values):
            return self._with(self.values.to(*args, **kwargs))
        if _arrays.is_for_torch(args, kwargs):
            return self._with(_arrays.as_tensor(self.values).to(*args, **kwargs))
        return self._with(self.values.astype(*args, **kwargs))

    def _of_kind(self, kind: str) -> Any:
        is_tensor = _arrays.is_tensor(self.values)
        return self.to(_arrays.torch_dtype(kind) if is_tensor else _arrays.numpy_dtype(kind))

    def half(self) -> Any:
        """The same matrix in f16."""
        return self._of_kind("f16")

    def bfloat16(self) -> Any:
        """The same matrix in bf16, which NumPy has from ml_dtypes."""
        return self._of_kind("bf16")

    def float(self) -> Any:
        """The same matrix in f32."""
        return self._of_kind("f32")

    def double(self) -> Any:
        """The same matrix in f64."""
        return self._of_kind("f64")

    def cuda(self, device: Any = None) -> Any:
        """The same matrix with its values on a GPU, by default the current one."""
        return self.to("cuda" if device is None else device)

    def cpu(self) -> Any:
        """The same matrix with its values on the host."""
        return self.to("cpu") if _arrays.is_tensor(self.values) else self

    def clone(self) -> Any:
        """A copy, which shares only the pattern."""
        return self._with(self.values.clone() if _arrays.is_tensor(self.values) else self.values.copy())

    def detach(self) -> Any:
        """A matrix of the same values, of which no gradient is computed."""
        return self._with(self.values.detach()) if _arrays.is_tensor(self.values) else self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of the values are computed: ``w.values.grad``."""
        return _arrays.is_tensor(self.values) and self.values.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Has gradients of the values computed, which ``w.values.grad`` has after ``backward``."""
        if not _arrays.is_tensor(self.values):
            raise Error("an array of NumPy has no gradient\n  help: `w.to('cpu')` makes a matrix of tensors")
        self.values.requires_grad_(requires_grad)
        return self

    def to_torch(self) -> Any:
        """A tensor of layout ``torch.sparse_bsr`` with the same values, which are not copied; the lists of blocks are.

        torch knows no blocks that extend beyond the edge: such a matrix becomes one of whole blocks.
        """
        return _convert.to_torch(self)

    @classmethod
    def from_torch(cls, tensor: Any, *, on_device: bool = False) -> Any:
        """The matrix of a tensor of layout ``torch.sparse_bsr``, whose values are not copied: gradients go to what those were made of.

        The lists of its blocks are copied to the host, which waits for a GPU. With ``on_device`` they are not: the pattern is
        a :class:`DevicePattern`, and nothing waits.
        """
        return cls(*_convert.from_torch(tensor, on_device))

    def to_scipy(self) -> Any:
        """A ``scipy.sparse.bsr_array`` with the same values, which are not copied where they are on the host.

        scipy knows no blocks that extend beyond the edge: such a matrix becomes one of whole blocks.
        """
        return _convert.to_scipy(self)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Any:
        """The matrix of a ``bsr_array`` or ``bsr_matrix`` of scipy, whose values are not copied.

        Where its blocks are not in order, or one is stored twice, they are sorted and added in a copy.
        """
        return cls(*_convert.from_scipy(matrix))

    def __mul__(self, factor: Any) -> Any:
        return self.with_values(self.values * _number(factor, "*"))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        return self.with_values(self.values / _number(divisor, "/"))

    def __neg__(self) -> Any:
        return self.with_values(-self.values)


def _number(factor: Any, sign: str) -> Any:
    """A number, or an array without dimensions, that a matrix is multiplied with."""
    if isinstance(factor, (int, float)) or getattr(factor, "shape", None) == ():
        return factor
    raise Error(
        f"`w {sign} x` of a matrix and a {type(factor).__name__}\n"
        "  help: a number scales it; `w @ x` multiplies matrices, and `w.with_values(..)` has other values in the same blocks"
    )
