"""What layers of PyTorch with a pattern in buffers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._epilogues import check_activation
from ._native import Error
from ._operators import is_transformed
from ._patterns import Pattern
from ._places import NONE, Places, rule_of, version_of

if TYPE_CHECKING:
    from typing_extensions import Self


def described(layer: Any, pattern: Any) -> str:
    """A layer in one line."""
    (bm, bk), grid = pattern.block, pattern.grid
    activation = "" if layer.activation == "none" else f", activation={layer.activation}"
    return (
        f"in_features={layer.in_features}, out_features={layer.out_features}, bias={layer.bias is not None}{activation}, "
        f"{pattern.nnzb} of {grid[0] * grid[1]} blocks of {bm} x {bk}"
    )


class Patterned(torch.nn.Module):
    """A layer whose ``weight`` has the values of stored blocks; ``row_ptr`` and ``col_idx`` are buffers with their places."""

    in_features: int
    out_features: int
    activation: str
    weight: Tensor
    bias: Tensor | None
    row_ptr: Tensor
    col_idx: Tensor

    _pattern: Pattern
    _key: str
    #: How a graph names the pattern: with the tensors, which it reads when it runs.
    _rule: str
    #: The tensors that the pattern is of, and how often they had been written to.
    _bound: tuple

    def __init__(
        self, features: tuple[int, int], pattern: Pattern, activation: str, device: Any, weight: Any, bias: Any
    ) -> None:
        """A layer from so many ``features`` to so many, with its weight, which is zero or holds nothing, and its bias or none."""
        super().__init__()
        self.in_features, self.out_features = features
        if pattern.shape != features[::-1]:
            raise Error(
                f"the pattern is of {pattern.shape[0]} x {pattern.shape[1]}, and the weight of a layer from {features[0]} "
                f"to {features[1]} features is {features[1]} x {features[0]}"
            )
        check_activation(activation)
        self.activation = activation
        for name, tensor in (("weight", weight), ("bias", bias)):
            is_trained = tensor is None or isinstance(tensor, torch.nn.Parameter)
            (self.register_parameter if is_trained else self.register_buffer)(name, tensor)
        for name in ("row_ptr", "col_idx"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int32, device=device))
        self._take(pattern)

    @property
    def pattern(self) -> Pattern:
        """Where the stored blocks are."""
        self._follow()
        return self._pattern

    def _follow(self) -> None:
        """Takes the pattern of the buffers, where they are not those that it was made of."""
        if not torch.compiler.is_compiling() and not self._is_bound() and not self.row_ptr.is_meta:
            # The tensors have changed in place, as those of a model on several GPUs do, or are another layer's.
            indices = (index.detach().cpu().numpy() for index in (self.row_ptr, self.col_idx))
            self._pattern = Pattern(self._pattern.shape, self._pattern.block, *indices)
            self._bind()

    def _bind(self) -> None:
        self._key, self._rule = self._pattern.key, rule_of(self._pattern)
        tensors = self.row_ptr, self.col_idx
        versions = [version_of(tensor) for tensor in tensors]
        self._bound = (*tensors, *((None, None) if None in versions else versions))

    def _is_bound(self) -> bool:
        # Asked in every call of a layer, and so without a way through the module's attributes.
        buffers, (row_ptr, col_idx, of_rows, of_columns) = self._buffers, self._bound
        if buffers["row_ptr"] is not row_ptr or buffers["col_idx"] is not col_idx:
            return False
        return of_rows is None or (row_ptr._version == of_rows and col_idx._version == of_columns)

    def _places(self) -> tuple[str, Places]:
        """The pattern's key; or its rule and its tensors, where these may be others than the layer's own: in graphs, and where
        PyTorch puts the state of another layer into this one (``torch.func.functional_call``)."""
        if not torch.compiler.is_compiling():
            if self._is_bound():
                return self._key, NONE
            if not is_transformed() and type(self.row_ptr) is Tensor and self.row_ptr is self._bound[0]:
                return self.pattern.key, NONE
        return self._rule, (self.row_ptr, self.col_idx)

    def extra_repr(self) -> str:
        return described(self, self.pattern) + "\n  " + self.pattern.picture().replace("\n", "\n  ")

    def _take(self, pattern: Pattern, device: Any = None) -> None:
        device = device or self.row_ptr.device
        self._pattern = pattern
        self.row_ptr, self.col_idx = (
            torch.tensor(index, device=device) for index in (pattern.row_ptr, pattern.col_idx)
        )
        self._bind()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        pattern, was_meta = self.pattern, self.row_ptr.is_meta
        super()._apply(fn, recurse)
        if was_meta and not self.row_ptr.is_meta:
            # What `to_empty` has allocated holds nothing.
            self._take(pattern)
        else:
            self._bind()
        return self

    def __getstate__(self) -> dict[str, Any]:
        pattern = self.pattern
        return {name: value for name, value in self.__dict__.items() if name != "_bound"} | {"_pattern": pattern}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._bind()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # The pattern is the loaded one's.
        row_ptr, col_idx = (state_dict.get(f"{prefix}{name}") for name in ("row_ptr", "col_idx"))
        weight = state_dict.get(f"{prefix}weight")
        if row_ptr is not None and col_idx is not None and weight is not None:
            indices = (index.cpu().numpy() for index in (row_ptr, col_idx))
            pattern = Pattern(self.pattern.shape, tuple(weight.shape[1:]), *indices)
            if pattern != self.pattern or self.row_ptr.shape != row_ptr.shape:
                self.weight.data = self.weight.data.new_empty(weight.shape)
                self.row_ptr, self.col_idx = torch.empty_like(row_ptr), torch.empty_like(col_idx)
                self._take(pattern, self.weight.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._follow()
