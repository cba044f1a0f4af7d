"""A layer of PyTorch whose pattern lives where its weight does, and moves without the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _torch
from ._device_patterns import DevicePattern
from ._layers import BlockSparseLinear, OfBlockSparse, check_fraction
from ._matrix import BsrMatrix
from ._native import Error
from ._patterned import described
from ._patterns import Pattern
from ._places import NONE, rule_of


class DynamicBlockSparseLinear(OfBlockSparse, torch.nn.Module):
    """``activation(x @ w.T + bias)`` with a block-sparse weight whose places are tensors, ``row_ptr`` and ``col_idx``.

    The number of stored blocks stays as it is, their places move: :meth:`drop_and_grow` computes the new ones on the device,
    writes them and the values where the old ones were, and waits for nothing. A CUDA graph of the layer serves every pattern
    that it has later on. ``weight`` has the values of the stored blocks, block row by block row, as in ``BlockSparseLinear``.
    """

    weight: Tensor
    bias: Tensor | None
    row_ptr: Tensor
    col_idx: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        pattern: Pattern,
        *,
        bias: bool = True,
        activation: str = "none",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        fixed = BlockSparseLinear(
            in_features, out_features, pattern, bias=bias, activation=activation, device=device, dtype=dtype
        )
        self._take(fixed)

    def _take(self, fixed: BlockSparseLinear) -> None:
        pattern = fixed.pattern
        if fixed.in_features % pattern.block[1] or fixed.out_features % pattern.block[0]:
            raise Error(
                f"a weight of {fixed.out_features} x {fixed.in_features} has blocks of {pattern.block[0]} x {pattern.block[1]} "
                "beyond its edge\n  help: blocks that divide both; values beyond the edge would have to move with the pattern"
            )
        self.in_features, self.out_features, self.activation = fixed.in_features, fixed.out_features, fixed.activation
        self.block, self.grid = fixed.pattern.block, fixed.pattern.grid
        self.weight = fixed.weight
        self.register_parameter("bias", None)
        self.bias = fixed.bias
        for name, index in (("row_ptr", pattern.row_ptr), ("col_idx", pattern.col_idx)):
            self.register_buffer(name, torch.tensor(index, device=fixed.weight.device))
        self._bind()

    def _bind(self) -> None:
        """Makes the pattern of the tensors that the layer has now."""
        shape = (self.out_features, self.in_features)
        self._pattern = DevicePattern(shape, self.block, self.row_ptr, self.col_idx)
        self._key, self._rule = self._pattern.key, rule_of(self._pattern)

    @classmethod
    def from_layer(cls, layer: BlockSparseLinear) -> DynamicBlockSparseLinear:
        """A layer with the pattern of this one; weight and bias are shared, not copied."""
        built = cls.__new__(cls)
        torch.nn.Module.__init__(built)
        built._take(layer)
        return built

    def to_layer(self) -> BlockSparseLinear:
        """A layer with the pattern as it is now, on the host: this waits for the device."""
        return BlockSparseLinear.from_matrix(self.matrix().to_host(), self.bias, activation=self.activation)

    @property
    def pattern(self) -> DevicePattern:
        """Where the stored blocks are."""
        return self._pattern

    def matrix(self) -> BsrMatrix:
        """The weight as a matrix, which shares the layer's values and pattern."""
        return BsrMatrix(self.weight, self.pattern, check=False)

    def forward(self, x: Tensor) -> Tensor:
        row_ptr, col_idx = self.row_ptr, self.col_idx
        own = self._pattern.row_ptr is row_ptr and self._pattern.col_idx is col_idx
        # In a graph, and where PyTorch puts the state of another layer into this one, the tensors may be others.
        pattern, places = (
            (self._rule, (row_ptr, col_idx)) if torch.compiler.is_compiling() or not own else (self._key, NONE)
        )
        return _torch.linear(x, self.weight, self.bias, pattern, False, self.activation, places)

    def places(self) -> Tensor:
        """The number of each stored block among all, block row by block row."""
        blocks = torch.arange(len(self.col_idx), device=self.col_idx.device, dtype=self.row_ptr.dtype)
        rows = torch.searchsorted(self.row_ptr[1:], blocks, right=True)
        return rows * self.grid[1] + self.col_idx

    @torch.no_grad()
    def drop_and_grow(
        self,
        fraction: float,
        *,
        scores: Tensor | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
    ) -> int:
        """Drops the stored blocks of the smallest norms, and stores as many others, which begin at zero.

        As that of ``BlockSparseLinear``, with ``scores`` on the layer's device: the norms of a dense gradient, for instance.
        Nothing waits for the device, and every tensor stays where it is, the optimizer's too.
        """
        check_fraction(fraction)
        stored, cells = len(self.col_idx), self.grid[0] * self.grid[1]
        count = min(round(stored * fraction), cells - stored)
        if count == 0:
            return 0
        if scores is None:
            scores = torch.rand(cells, device=self.weight.device, generator=generator)
        elif tuple(scores.shape) != self.grid or scores.device != self.weight.device:
            raise Error(
                f"the scores are {' x '.join(map(str, scores.shape))} on {scores.device}\n  help: one for each of "
                f"{self.grid[0]} x {self.grid[1]} blocks, on {self.weight.device}"
            )
        places = self.places()
        stays = self.weight.float().square().sum((1, 2)).topk(stored - count, sorted=False).indices
        candidates = scores.reshape(-1).float().index_fill(0, places.long(), -torch.inf)
        grown = candidates.topk(count, sorted=False).indices
        self._move(
            torch.cat([places[stays].long(), grown]), torch.cat([stays, stays.new_full((count,), -1)]), optimizer
        )
        return count

    def _move(self, places: Tensor, before: Tensor, optimizer: torch.optim.Optimizer | None) -> None:
        """Stores the blocks with these numbers, which had the values of those before, or none where that is -1."""
        places, order = places.sort()
        before = before[order]
        stays_stored, source = (before >= 0)[:, None, None], before.clamp(min=0)

        def moved(values: Tensor) -> Tensor:
            return torch.where(stays_stored, values[source], torch.zeros((), dtype=values.dtype, device=values.device))

        for values in _of_weight(self.weight, optimizer):
            values.copy_(moved(values))
        # In place, so that graphs find them; gradients of what was computed with the old blocks are refused.
        self.weight.copy_(moved(self.weight))
        if self.weight.grad is not None:
            self.weight.grad.zero_()
        rows = torch.arange(self.grid[0] + 1, device=places.device)
        self.row_ptr.copy_(torch.searchsorted(places // self.grid[1], rows))
        self.col_idx.copy_(places % self.grid[1])
        self.pattern.changed()

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._follow()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> DynamicBlockSparseLinear:
        super()._apply(fn, recurse)
        self._follow()
        return self

    def _follow(self) -> None:
        """What the tensors hold may have changed, or they may be others."""
        if self._pattern.row_ptr is self.row_ptr and self._pattern.col_idx is self.col_idx:
            self._pattern.changed()
        else:
            self._bind()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_pattern", "_key", "_rule")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._bind()

    def extra_repr(self) -> str:
        return described(self, self.pattern)


def _of_weight(weight: Tensor, optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    """What an optimizer keeps for every value of a weight."""
    if optimizer is None:
        return []
    state = optimizer.state.get(weight, {}).values()
    return [value for value in state if isinstance(value, Tensor) and value.shape == weight.shape]
