"""Layers of PyTorch with block-sparse weights.

>>> layer = bsr_gemm.nn.BlockSparseLinear.from_linear(linear, block=(128, 128), keep=0.25)
>>> bsr_gemm.nn.sparsify_(model, block=(64, 64), keep=0.25)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ._dynamic import DynamicBlockSparseLinear
from ._layers import BlockSparseLinear, BlockSparseMLP, Float8BlockSparseLinear
from ._native import Error

if TYPE_CHECKING:
    from .parallel import parallelize_

__all__ = [
    "BlockSparseLinear",
    "BlockSparseMLP",
    "DynamicBlockSparseLinear",
    "Float8BlockSparseLinear",
    "SparsifyConfig",
    "float8_",
    "parallelize_",
    "register_torchao",
    "sparsify_",
]


def __getattr__(name: str) -> Any:
    # Without torch.distributed, which is not in every build of PyTorch, all else is there.
    if name == "parallelize_":
        from .parallel import parallelize_

        return parallelize_
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass
class SparsifyConfig:
    """What ``sparsify_`` makes of a model's linear layers."""

    block: tuple[int, int] = (64, 64)
    """Rows and columns of a block."""
    keep: float | None = 0.25
    """The fraction of blocks that stays in each layer."""
    per_row: int | None = None
    """Instead of ``keep``: blocks that stay in each block row."""
    include: str = ".*"
    """A pattern (``re.fullmatch``) for the names of layers that are sparsified."""
    exclude: str = "lm_head|.*embed.*"
    """A pattern for the names of layers that are not."""
    where: Callable[[torch.nn.Linear, str], bool] | None = None
    """A further condition on a layer and its name."""

    def takes(self, module: torch.nn.Module, name: str) -> bool:
        """Whether a layer is sparsified."""
        return (
            type(module) is torch.nn.Linear
            and re.fullmatch(self.include, name) is not None
            and re.fullmatch(self.exclude, name) is None
            and (self.where is None or self.where(module, name))
        )


def sparsify_(model: torch.nn.Module, config: SparsifyConfig | None = None, **settings: Any) -> torch.nn.Module:
    """Replaces linear layers of a model by block-sparse ones with their blocks of the largest norms; returns the model."""
    config = config or SparsifyConfig(**settings)
    if isinstance(model, torch.nn.Linear):
        raise Error(
            "a layer cannot be replaced in place\n  help: `BlockSparseLinear.from_linear(layer, ..)` makes another"
        )
    count = 0
    for name, parent in list(model.named_modules()):
        for attribute, child in list(parent.named_children()):
            full = f"{name}.{attribute}" if name else attribute
            if config.takes(child, full):
                choice = {"per_row": config.per_row} if config.per_row is not None else {"keep": config.keep}
                made = BlockSparseLinear.from_linear(child, config.block, **choice)
                setattr(parent, attribute, made.train(child.training))
                count += 1
    if count == 0:
        raise Error(
            f"no linear layer of the model is named as include = {config.include!r} and exclude = {config.exclude!r} say\n"
            "  help: `[n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]` lists the names"
        )
    return model


def float8_(model: torch.nn.Module) -> torch.nn.Module:
    """Replaces the block-sparse layers of a model by ones in FP8, for inference; returns the model."""
    count = 0
    for parent in list(model.modules()):
        for attribute, child in list(parent.named_children()):
            if isinstance(child, BlockSparseMLP):
                up, down = child.up, child.down
                layers = [Float8BlockSparseLinear.from_layer(layer) for layer in (up, down)]
                layers[0].activation = child.activation
                setattr(parent, attribute, torch.nn.Sequential(*layers).train(child.training))
                count += 1
            elif type(child) is BlockSparseLinear and not isinstance(parent, BlockSparseMLP):
                setattr(parent, attribute, Float8BlockSparseLinear.from_layer(child).train(child.training))
                count += 1
    if count == 0:
        raise Error("the model has no block-sparse layer\n  help: `bsr_gemm.nn.sparsify_(model)` makes them")
    return model


def register_torchao() -> type:
    """Makes a config for torchao's ``quantize_`` and returns its type: ``quantize_(model, BlockSparseConfig(keep=0.25))``.

    With ``float8`` weights are in FP8 with a factor for each output, and activations are brought to FP8 where they are
    multiplied, with a factor for each token.
    """
    from torchao.core.config import AOBaseConfig
    from torchao.quantization.transform_module import register_quantize_module_handler

    @dataclass
    class BlockSparseConfig(AOBaseConfig):
        """Linear layers with the blocks of the largest norms."""

        block: tuple[int, int] = (64, 64)
        keep: float = 0.25
        float8: bool = False

    @register_quantize_module_handler(BlockSparseConfig)
    def _transform(module: Any, config: Any) -> torch.nn.Module:
        if not isinstance(module, BlockSparseLinear):
            module = BlockSparseLinear.from_linear(module, tuple(config.block), config.keep)
        return Float8BlockSparseLinear.from_layer(module) if config.float8 else module

    return BlockSparseConfig
