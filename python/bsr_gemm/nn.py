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

from ._lib import _attention_torch  # noqa: F401  All operators are there for programs that were exported.
from ._lib._dynamic import DynamicBlockSparseLinear
from ._lib._layers import BlockSparseLinear, BlockSparseMLP, Float8BlockSparseLinear
from ._lib._native import Error

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
    choice: dict[str, Any] = {"per_row": config.per_row} if config.per_row is not None else {"keep": config.keep}

    def make(name: str, parent: torch.nn.Module, child: torch.nn.Module) -> torch.nn.Module | None:
        return BlockSparseLinear.from_linear(child, config.block, **choice) if config.takes(child, name) else None

    if not _replace(model, make):
        raise Error(
            f"no linear layer of the model has a name that include = {config.include!r} matches and exclude = {config.exclude!r} does not\n"
            "  help: `[n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]` lists the names"
        )
    return model


def float8_(model: torch.nn.Module) -> torch.nn.Module:
    """Replaces the block-sparse layers of a model by ones in FP8, for inference; returns the model."""

    def make(name: str, parent: torch.nn.Module, child: torch.nn.Module) -> torch.nn.Module | None:
        if isinstance(child, BlockSparseMLP):
            layers = [Float8BlockSparseLinear.from_layer(layer) for layer in (child.up, child.down)]
            layers[0].activation = child.activation
            return torch.nn.Sequential(*layers)
        is_layer = type(child) is BlockSparseLinear and not isinstance(parent, BlockSparseMLP)
        return Float8BlockSparseLinear.from_layer(child) if is_layer else None

    if not _replace(model, make):
        raise Error("the model has no block-sparse layer\n  help: `bsr_gemm.nn.sparsify_(model)` makes them")
    return model


def _replace(model: torch.nn.Module, make: Callable[[str, torch.nn.Module, torch.nn.Module], Any]) -> bool:
    """Puts what is made of a module, by its name and its parent, wherever the module is used; whether any was."""
    made: dict[torch.nn.Module, torch.nn.Module] = {}
    for name, parent in list(model.named_modules(remove_duplicate=False)):
        for attribute, child in list(parent._modules.items()):
            if child is None:
                continue
            if child not in made:
                other = make(f"{name}.{attribute}" if name else attribute, parent, child)
                if other is None:
                    continue
                made[child] = other.train(child.training)
            setattr(parent, attribute, made[child])
    replaced = set(made.values())
    for module in model.modules():
        # PyTorch has kernels for whole layers of an encoder, which read dense weights.
        if isinstance(module, torch.nn.TransformerEncoderLayer) and replaced & set(module.children()):
            module.activation_relu_or_gelu = 0
        if isinstance(module, torch.nn.TransformerEncoder) and replaced & set(module.modules()):
            module.use_nested_tensor = False
    return bool(made)


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
