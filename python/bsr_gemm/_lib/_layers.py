"""Layers of PyTorch whose weight is stored in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from . import _arrays, _float8, _torch
from ._blocks import gather, padding_mask
from ._epilogues import check_activation
from ._matrix import BsrMatrix, from_dense, grid_of
from ._native import Error
from ._patterned import Patterned
from ._patterns import Pattern

if TYPE_CHECKING:
    from typing_extensions import Self


class Pruned:
    """Layers that are made of a dense one."""

    from_matrix: Any

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        block: tuple[int, int] = (64, 64),
        keep: float | None = None,
        *,
        per_row: int | None = None,
        mask: Any = None,
        activation: str = "none",
    ) -> Self:
        """A layer with the blocks of a dense one that have the largest norms, or those of a mask."""
        w = from_dense(linear.weight.detach(), block, keep, per_row=per_row, mask=mask)
        return cls.from_matrix(w, linear.bias, activation=activation)


class BlockSparseLinear(Pruned, Patterned):
    """``activation(x @ w.T + bias)`` with a weight of which only some blocks are stored and trained.

    They are those of ``pattern``; or, of blocks of ``block``, the fraction ``keep``, drawn anew for each block row. A state dict of
    a dense layer gives the layer the blocks that it stores.

    ``weight`` has the values of the stored blocks, blocks x rows x columns; ``row_ptr`` and ``col_idx`` are buffers with
    their places, so that a state dict holds the pattern and a layer takes that of the one it loads.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        pattern: Pattern | None = None,
        *,
        block: tuple[int, int] | None = None,
        keep: float | None = None,
        bias: bool = True,
        activation: str = "none",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if [part is not None for part in (pattern, block, keep)] not in ([True, False, False], [False, True, True]):
            raise Error("a layer has a pattern, or draws one\n  help: give `pattern`, or both `block` and `keep`")
        pattern = pattern or _drawn((out_features, in_features), block, keep)
        weight = torch.nn.Parameter(torch.empty((pattern.nnzb, *pattern.block), device=device, dtype=dtype))
        added = torch.nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        super().__init__((in_features, out_features), pattern, activation, device, weight, added)
        self.reset_parameters()

    @classmethod
    def from_matrix(cls, w: BsrMatrix, bias: Tensor | None = None, *, activation: str = "none") -> Self:
        """A layer with this weight; values and bias are shared, not copied."""
        outputs, inputs = w.shape
        built = cls(inputs, outputs, w.pattern, bias=bias is not None, activation=activation, device="meta")
        built.weight = torch.nn.Parameter(w.values)
        if bias is not None:
            built.bias = bias if isinstance(bias, torch.nn.Parameter) else torch.nn.Parameter(bias)
        built._take(w.pattern, w.values.device)
        return built

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        weight = state_dict.get(f"{prefix}weight")
        if weight is not None and tuple(weight.shape) == self.pattern.shape and not weight.is_meta:
            places = {"weight": gather(weight, self.pattern), "row_ptr": self.row_ptr, "col_idx": self.col_idx}
            state_dict.update({f"{prefix}{name}": tensor for name, tensor in places.items()})
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def reset_parameters(self) -> None:
        """Draws weight and bias as ``torch.nn.Linear`` does, for the inputs that an output has on average."""
        inputs = max(1.0, self.in_features * self.pattern.density)
        if not self.weight.is_meta:
            bound = 1 / math.sqrt(inputs)
            with torch.no_grad():
                self.weight.uniform_(-bound, bound)
                self._clear_padding()
                if self.bias is not None:
                    self.bias.uniform_(-bound, bound)

    def matrix(self) -> BsrMatrix:
        """The weight as a matrix, which shares the layer's values."""
        return BsrMatrix(self.weight, self.pattern, check=False)

    def forward(self, x: Tensor) -> Tensor:
        pattern, places = self._places()
        return _torch.linear(x, self.weight, self.bias, pattern, False, self.activation, places)

    def to_linear(self) -> torch.nn.Linear:
        """A dense layer that computes the same, without the activation, with zeros in place of blocks that are not stored."""
        dense = torch.nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        dense.weight = torch.nn.Parameter(self.matrix().to_dense().detach())
        if self.bias is not None:
            dense.bias = torch.nn.Parameter(self.bias.detach().clone())
        return dense

    @torch.no_grad()
    def drop_and_grow(
        self,
        fraction: float,
        *,
        scores: Any = None,
        optimizer: torch.optim.Optimizer | None = None,
        generator: np.random.Generator | None = None,
    ) -> int:
        """Drops the stored blocks of the smallest norms, and stores as many others, which begin at zero.

        ``fraction`` is of the stored blocks. ``scores`` (block rows x block columns) says which blocks are stored next,
        the largest first: the norms of a dense gradient for instance; without them they are drawn at random. Blocks that
        were dropped are not stored again at once. Of an ``optimizer`` what it keeps of the weight moves along, and is
        zero for new blocks. Returns how many blocks were exchanged.
        """
        check_fraction(fraction)
        stored = self.pattern.mask()
        free = int((~stored).sum())
        count = min(round(self.pattern.nnzb * fraction), free)
        if count == 0:
            return 0
        squares = self.weight.detach().float().square().sum((1, 2)).cpu().numpy()
        dropped = np.argsort(squares, kind="stable")[:count]
        mask = stored.copy()
        mask[self.pattern.row_idx[dropped], self.pattern.col_idx[dropped]] = False
        if scores is None:
            scores = (generator or np.random.default_rng()).random(stored.shape)
        scores = np.asarray(scores.detach().cpu() if isinstance(scores, Tensor) else scores, dtype=np.float64)
        if scores.shape != stored.shape:
            raise Error(
                f"the scores are {scores.shape}, and the matrix has {stored.shape[0]} x {stored.shape[1]} blocks"
            )
        candidates = np.where(stored, -np.inf, scores).ravel()
        mask.ravel()[np.argsort(-candidates, kind="stable")[:count]] = True
        self.set_mask(mask, optimizer=optimizer)
        return count

    @torch.no_grad()
    def set_mask(self, mask: Any, *, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Stores the blocks of a mask (block rows x block columns): those that are stored already keep their values, the
        others begin at zero. What an ``optimizer`` keeps of the weight moves along."""
        mask = mask.cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
        new = Pattern.from_mask(mask, self.pattern.shape, self.pattern.block)
        number = np.full(self.pattern.grid, -1, dtype=np.int64)
        number[self.pattern.row_idx, self.pattern.col_idx] = np.arange(self.pattern.nnzb)
        before = _arrays.index(number[new.row_idx, new.col_idx], self.weight)
        old_shape = self.weight.shape

        def moved(values: Tensor) -> Tensor:
            old = values[before.clamp(min=0)] if len(values) else values.new_zeros((new.nnzb, *values.shape[1:]))
            return torch.where(
                (before >= 0)[:, None, None], old, torch.zeros((), dtype=values.dtype, device=values.device)
            )

        if optimizer is not None:
            for name, value in optimizer.state.get(self.weight, {}).items():
                if isinstance(value, Tensor) and value.shape == old_shape:
                    optimizer.state[self.weight][name] = moved(value)
        self.weight.grad = None
        values = moved(self.weight.data)
        # Gradients of what was computed with the old blocks are refused, not computed of the new ones.
        torch.autograd.graph.increment_version(self.weight)
        self.weight.data = values
        self._take(new)

    def _clear_padding(self) -> None:
        mask = padding_mask(self.pattern)
        if mask is not None:
            self.weight.data[_arrays.index(mask, self.weight)] = 0


def check_fraction(fraction: float) -> None:
    if not 0.0 <= fraction <= 1.0:
        raise Error(f"fraction = {fraction} of the stored blocks\n  help: give a number from 0 to 1, for instance 0.1")


def _drawn(shape: tuple[int, int], block: Any, keep: Any) -> Pattern:
    """A pattern with the same number of blocks in each block row, drawn by PyTorch's generator."""
    grid = grid_of(shape, block)
    if not 0.0 < keep <= 1.0:
        raise Error(f"keep = {keep} of the blocks\n  help: give a number above 0 and at most 1, for instance 0.25")
    drawn = torch.rand(grid, device="cpu").topk(max(1, round(grid[1] * keep)), dim=1).indices
    return Pattern.from_mask(torch.zeros(grid, device="cpu").scatter_(1, drawn, 1.0), shape, block)


def _row_scales(values: Tensor, pattern: Pattern) -> tuple[Tensor, Tensor]:
    """Block rows x rows of a block: what the rows of a matrix are divided by to be FP8; and the block row of each block."""
    rows = _arrays.index(pattern.row_idx, values)
    lengths = np.diff(pattern.row_ptr)
    # Each block row's largest magnitudes, block by block, then zeros.
    place = _arrays.index(np.arange(pattern.nnzb) - np.repeat(pattern.row_ptr[:-1], lengths), values)
    beside = values.new_zeros((pattern.grid[0], max(1, int(lengths.max(initial=0))), pattern.block[0]))
    largest = beside.index_put((rows, place), values.abs().amax(2)).amax(1).float()
    return torch.where(largest > 0, largest / _float8.LARGEST, torch.ones_like(largest)), rows


class OfBlockSparse(Pruned):
    """Layers that are made of a :class:`BlockSparseLinear`."""

    @classmethod
    def from_layer(cls, layer: BlockSparseLinear) -> Self:
        """A layer with the pattern of this one."""
        raise NotImplementedError

    @classmethod
    def from_matrix(cls, w: BsrMatrix, bias: Tensor | None = None, *, activation: str = "none") -> Self:
        """A layer with this weight."""
        return cls.from_layer(BlockSparseLinear.from_matrix(w, bias, activation=activation))


class Float8BlockSparseLinear(OfBlockSparse, Patterned):
    """``activation(x @ w.T + bias)`` with a block-sparse weight in FP8 (e4m3), for inference.

    ``weight`` has the values of the stored blocks, ``weight_scale`` a factor for each output. Activations are brought to FP8
    where they are multiplied, with a factor for each token that is made of its largest magnitude. Sums are in f32; they are
    multiplied by both factors, get the bias and the activation, and are rounded once, all in the product's kernel. The result
    is of the type of ``x``.
    """

    weight_scale: Tensor

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
        weight = torch.zeros((pattern.nnzb, *pattern.block), device=device, dtype=torch.float32).to(_float8.E4M3)
        added = torch.zeros(out_features, device=device, dtype=dtype) if bias else None
        super().__init__((in_features, out_features), pattern, activation, device, weight, added)
        self.register_buffer("weight_scale", torch.ones(out_features, device=device))

    @classmethod
    def from_layer(cls, layer: BlockSparseLinear) -> Float8BlockSparseLinear:
        """A layer with the weight of this one, in FP8: the largest magnitude of each output becomes the type's largest number."""
        weight, bias = layer.weight.detach(), layer.bias
        built = cls(
            layer.in_features,
            layer.out_features,
            layer.pattern,
            bias=bias is not None,
            activation=layer.activation,
            device=weight.device,
            dtype=None if bias is None else bias.dtype,
        )
        if bias is not None:
            built.bias = bias.detach().clone()
        scale, rows = _row_scales(weight, layer.pattern)
        built.weight = _float8.rounded(weight.float() / scale[rows][:, :, None])
        built.weight_scale = scale.reshape(-1)[: layer.out_features].clone()
        return built

    def forward(self, x: Tensor) -> Tensor:
        dtype = _torch.autocast_dtype(x.device.type) or x.dtype
        quantised, scale = _float8.quantise_rows(x.reshape(-1, x.shape[-1]))
        pattern, places = self._places()
        y = torch.ops.bsr_gemm.float8_linear(
            quantised, scale, self.weight, self.weight_scale, self.bias, pattern, self.activation, dtype, *places
        )
        return y.view(*x.shape[:-1], self.out_features)

    def matrix(self) -> BsrMatrix:
        """The stored numbers as a matrix, without their factors; it shares them."""
        return BsrMatrix(self.weight, self.pattern, check=False)

    def to_linear(self) -> torch.nn.Linear:
        """A dense layer with the dequantised weight, without the activation, in f32."""
        matrix = BsrMatrix(self.weight.float(), self.pattern, check=False)
        dense = torch.nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        dense.weight = torch.nn.Parameter(matrix.to_dense() * self.weight_scale[:, None])
        if self.bias is not None:
            dense.bias = torch.nn.Parameter(self.bias.detach().float())
        return dense

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Float8BlockSparseLinear:
        # `model.to(torch.bfloat16)` is for what is computed with, not for what is stored.
        stored_type = self.weight, self.weight_scale
        super()._apply(fn, recurse)
        self.weight, self.weight_scale = (
            now if now.dtype == before.dtype else before.to(now.device)
            for now, before in zip((self.weight, self.weight_scale), stored_type)
        )
        return self


class BlockSparseMLP(torch.nn.Module):
    """A feed-forward network of two block-sparse layers, ``down(activation(up(x)))``.

    The same as the two layers one after the other; its gradients take fewer passes over the hidden features, as the
    derivative of the activation is part of a product.
    """

    def __init__(self, up: BlockSparseLinear, down: BlockSparseLinear, activation: str | None = None) -> None:
        super().__init__()
        if down.in_features != up.out_features or down.activation != "none":
            raise Error(
                f"the first layer has {up.out_features} outputs, and the second {down.in_features} inputs and the activation "
                f"`{down.activation}`\n  help: both numbers are equal, and the second layer has no activation"
            )
        check_activation(up.activation if activation is None else activation)
        if activation is not None and up.activation not in ("none", activation):
            raise Error(
                f"the first layer has the activation `{up.activation}`, and the network `{activation}`\n"
                "  help: give one of them"
            )
        self.up, self.down = up, down
        self.activation = up.activation if activation is None else activation

    @classmethod
    def from_linears(
        cls,
        up: torch.nn.Linear,
        down: torch.nn.Linear,
        block: tuple[int, int] = (64, 64),
        keep: float | None = None,
        *,
        per_row: int | None = None,
        activation: str = "gelu",
    ) -> BlockSparseMLP:
        """A network with the blocks of two dense layers that have the largest norms."""
        first, second = (BlockSparseLinear.from_linear(layer, block, keep, per_row=per_row) for layer in (up, down))
        return cls(first, second, activation)

    def forward(self, x: Tensor) -> Tensor:
        up, down = self.up, self.down
        first, second = ((layer.weight, layer.bias, *layer._places()) for layer in (up, down))
        return _torch.ffn(x, first, second, self.activation)

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
