"""Tensor parallelism: layers whose shards are on the ranks of a process group of ``torch.distributed``.

>>> mesh = torch.distributed.init_device_mesh("cuda", (2,))
>>> bsr_gemm.nn.parallelize_(model, mesh)

The hidden features of a feed-forward network are divided among the ranks, in whole blocks, so that each has as many stored
blocks. Each rank computes its part of the network for all tokens, and the parts are summed: one all-reduce in the forward
pass, and one in the backward pass, during which the gradients of the weights are computed.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._lib import _parallel_ops as _ops
from ._lib._layers import BlockSparseLinear, BlockSparseMLP
from ._lib._matrix import BsrMatrix
from ._lib._native import Error
from ._lib._shards import Sharding, shard_hidden

__all__ = [
    "ColumnParallelLinear",
    "ParallelMLP",
    "RowParallelLinear",
    "full_state_dict",
    "load_full_state_dict",
    "parallelize_",
]

#: What a plan may say of a layer.
STYLES = ("mlp", "column", "row")


#: Of a layer that was divided the beginning of its names, this rank's weight, who has which part, and the bias: all of it, or
#: this rank's part.
_Piece = tuple[str, Tensor, Sharding, "Tensor | None", bool]


class _Parallel(torch.nn.Module):
    """A layer of which each rank of a group has a part."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.rank = dist.get_rank(group)

    def _pieces(self) -> list[_Piece]:
        """What this rank has of the layers that were divided."""
        raise NotImplementedError

    def full_state_dict(self) -> dict[str, Tensor]:
        """The state of the whole layer, as the one that was divided has it: on every rank, which all call this."""
        state: dict[str, Tensor] = {}
        for name, weight, sharding, bias, is_whole in self._pieces():
            pattern = sharding.pattern
            sizes = [(owned.blocks, *pattern.block) for owned in sharding.ranks]
            state[f"{name}weight"] = sharding.gather_values(self._gathered(weight, sizes))
            for index, list_ in (("row_ptr", pattern.row_ptr), ("col_idx", pattern.col_idx)):
                state[f"{name}{index}"] = torch.tensor(list_, device=weight.device)
            if bias is not None and is_whole:
                state[f"{name}bias"] = bias.detach()
            elif bias is not None:
                state[f"{name}bias"] = torch.cat(self._gathered(bias, [(len(o.elements),) for o in sharding.ranks]))
        return state

    def full_state_names(self) -> set[str]:
        """What the state of the whole layer has."""
        pieces = self._pieces()
        names = {f"{name}{key}" for name, *_ in pieces for key in ("weight", "row_ptr", "col_idx")}
        return names | {f"{name}bias" for name, *_, bias, _ in pieces if bias is not None}

    @torch.no_grad()
    def load_full_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes this rank's part of the state of a whole layer with the same pattern."""
        for name, weight, sharding, bias, is_whole in self._pieces():
            pattern = sharding.pattern
            for index, expected in (("row_ptr", pattern.row_ptr), ("col_idx", pattern.col_idx)):
                if state[f"{name}{index}"].tolist() != expected.tolist():
                    raise Error(
                        f"the state's {name}{index} is that of another pattern than the one that was divided\n"
                        "  help: load it into the whole model, and then divide this"
                    )
            weight.copy_(sharding.part(BsrMatrix(state[f"{name}weight"], pattern, check=False), self.rank).values)
            if bias is not None:
                owned, whole = sharding.ranks[self.rank].elements, state[f"{name}bias"]
                bias.copy_(whole if is_whole else whole[owned.start : owned.stop])

    def _gathered(self, local: Tensor, sizes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The tensors of all ranks, which have these sizes."""
        parts = []
        for rank, size in enumerate(sizes):
            part = local.detach().contiguous() if rank == self.rank else local.new_empty(size)
            if part.numel():
                dist.broadcast(part, dist.get_global_rank(self.group, rank), group=self.group)
            parts.append(part)
        return parts

    def _part(self, layer: BlockSparseLinear, sharding: Sharding) -> BlockSparseLinear:
        """This rank's shard of a layer; of the bias the part that belongs to it, none where columns are divided."""
        weight = sharding.part(BsrMatrix(layer.weight.detach(), layer.pattern, check=False), self.rank)
        bias = None
        if layer.bias is not None and sharding.side == "rows":
            owned = sharding.ranks[self.rank].elements
            bias = layer.bias.detach()[owned.start : owned.stop].clone()
        return BlockSparseLinear.from_matrix(weight, bias, activation=layer.activation)


class ColumnParallelLinear(_Parallel):
    """A layer of which each rank computes some outputs of all tokens: it has some block rows of the weight.

    The result has this rank's outputs alone. The gradient of the input is summed over the ranks.
    """

    def __init__(self, layer: BlockSparseLinear, group: dist.ProcessGroup, sharding: Sharding) -> None:
        super().__init__(group)
        self.sharding, self.local = sharding, self._part(layer, sharding)

    def forward(self, x: Tensor) -> Tensor:
        local = self.local
        return _ops.column(x, local.weight, local.bias, local.pattern.key, local.activation, self.group)

    def _pieces(self) -> list[_Piece]:
        return [("", self.local.weight, self.sharding, self.local.bias, False)]


class RowParallelLinear(_Parallel):
    """A layer of which each rank multiplies some inputs: it has some block columns of the weight.

    The input has this rank's features alone, as a :class:`ColumnParallelLinear` makes them. The results are summed over the
    ranks. The bias is on every rank, and is added once.
    """

    def __init__(self, layer: BlockSparseLinear, group: dist.ProcessGroup, sharding: Sharding) -> None:
        super().__init__(group)
        if layer.activation != "none":
            raise Error(
                f"the layer has the activation `{layer.activation}`, which is computed of the sum over all ranks\n"
                "  help: make it a step of its own"
            )
        self.sharding, self.local = sharding, self._part(layer, sharding)
        bias = None if layer.bias is None else torch.nn.Parameter(layer.bias.detach().clone())
        self.register_parameter("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        return _ops.row(x, self.local.weight, self.bias, self.local.pattern.key, self.group)

    def _pieces(self) -> list[_Piece]:
        return [("", self.local.weight, self.sharding, self.bias, True)]


class ParallelMLP(_Parallel):
    """A :class:`~bsr_gemm.nn.BlockSparseMLP` whose hidden features are divided among the ranks.

    ``chunks`` divides the tokens of the second product: the sum of one part is under way while the next is computed. During
    sums kernels leave ``free`` multiprocessors of a GPU to them, as a kernel that takes all of them would wait for the sum.
    """

    def __init__(
        self, mlp: BlockSparseMLP, group: dist.ProcessGroup, *, chunks: int = 1, free: int = _ops.BESIDE_A_SUM
    ) -> None:
        super().__init__(group)
        (self.up_sharding,), self.down_sharding = shard_hidden([mlp.up], mlp.down, dist.get_world_size(group))
        self.up, self.down = self._part(mlp.up, self.up_sharding), self._part(mlp.down, self.down_sharding)
        bias = None if mlp.down.bias is None else torch.nn.Parameter(mlp.down.bias.detach().clone())
        self.register_parameter("bias", bias)
        self.activation, self.chunks, self.free = mlp.activation, chunks, free

    def forward(self, x: Tensor) -> Tensor:
        up, down = self.up, self.down
        how = _ops.How(self.activation, self.group, self.chunks, self.free)
        return _ops.ffn(x, (up.weight, up.bias, up.pattern.key), (down.weight, self.bias, down.pattern.key), how)

    def _pieces(self) -> list[_Piece]:
        up = ("up.", self.up.weight, self.up_sharding, self.up.bias, False)
        return [up, ("down.", self.down.weight, self.down_sharding, self.bias, True)]

    def extra_repr(self) -> str:
        return f"activation={self.activation}, rank {self.rank} of\n{self.up_sharding}"


def parallelize_(
    model: torch.nn.Module,
    mesh: Any = None,
    plan: Mapping[str, str] | None = None,
    *,
    chunks: int = 1,
) -> torch.nn.Module:
    """Divides layers of a model among the ranks of a mesh with one dimension (or a process group); returns the model.

    Every rank calls this with the same model; the weights are those of the first rank. ``plan`` says what becomes of layers
    whose names match a pattern of ``fnmatch``: ``"mlp"`` of a :class:`~bsr_gemm.nn.BlockSparseMLP`; ``"column"`` and ``"row"``
    of block-sparse layers of one parent module, of which the last consumes the features that the others make, as in
    ``{"*.gate": "column", "*.up": "column", "*.down": "row"}``. Without a plan every ``BlockSparseMLP`` is divided.
    """
    group = _group_of(mesh)
    plan = dict(plan) if plan is not None else None
    for style in (plan or {}).values():
        if style not in STYLES:
            raise Error(f"`{style}` is no style of a plan\n  help: use one of {', '.join(STYLES)}")
    count = 0
    for name, parent in list(model.named_modules()):
        columns: list[str] = []
        for attribute, child in list(parent.named_children()):
            match _style(f"{name}.{attribute}" if name else attribute, child, plan):
                case "mlp":
                    _agree(child, group)
                    setattr(parent, attribute, ParallelMLP(child, group, chunks=chunks).train(child.training))
                    count += 1
                case "column":
                    columns.append(attribute)
                case "row":
                    _divide_pair(parent, columns, attribute, group)
                    count, columns = count + 1, []
        if columns:
            raise Error(
                f"no layer of `{name or 'the model'}` consumes the features of {', '.join(columns)}\n"
                '  help: the plan says "row" of the layer after them, in the same module'
            )
    if count == 0:
        raise Error(
            "no layer of the model was divided\n"
            "  help: without a plan every BlockSparseMLP is; the names in a plan are those of `model.named_modules()`"
        )
    return model


def full_state_dict(model: torch.nn.Module) -> dict[str, Tensor]:
    """The state of the whole model, with the names that it had before it was divided: on every rank, which all call this."""
    state = dict(model.state_dict())
    for name, module in _parallel_modules(model):
        for key in [key for key in state if key.startswith(name)]:
            del state[key]
        state |= {f"{name}{key}": value for key, value in module.full_state_dict().items()}
    return state


def load_full_state_dict(model: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Takes this rank's parts of the state of a whole model with the same patterns."""
    left = dict(state)
    for name, module in _parallel_modules(model):
        part = {key.removeprefix(name): left.pop(key) for key in list(left) if key.startswith(name)}
        missing = sorted(module.full_state_names() - part.keys())
        if missing:
            raise Error(f"the state has no {name}{missing[0]}\n  help: `full_state_dict` makes states with all names")
        module.load_full_state_dict(part)
    own = {key for key in model.state_dict() if not any(key.startswith(name) for name, _ in _parallel_modules(model))}
    incompatible = model.load_state_dict({key: value for key, value in left.items() if key in own}, strict=False)
    wrong = sorted(set(left) - own) + sorted(set(incompatible.missing_keys) & own)
    if wrong:
        raise Error(f"the state and the model do not both have {wrong[0]}\n  help: use the state of the same model")


def _parallel_modules(model: torch.nn.Module) -> Iterator[tuple[str, _Parallel]]:
    for name, module in model.named_modules():
        if isinstance(module, _Parallel):
            yield (f"{name}." if name else "", module)


def _group_of(mesh: Any) -> dist.ProcessGroup:
    if not dist.is_initialized():
        raise Error(
            "there is no process group\n  help: start the program with torchrun, and call `torch.distributed.init_process_group`"
        )
    if mesh is None:
        return dist.group.WORLD
    if isinstance(mesh, dist.ProcessGroup):
        return mesh
    if mesh.ndim != 1:
        raise Error(f"the mesh has {mesh.ndim} dimensions\n  help: pass one of them, `mesh['tp']`")
    return mesh.get_group()


def _style(name: str, module: torch.nn.Module, plan: Mapping[str, str] | None) -> str | None:
    """What becomes of a layer."""
    if plan is None:
        return "mlp" if isinstance(module, BlockSparseMLP) else None
    style = next((style for names, style in plan.items() if fnmatch.fnmatchcase(name, names)), None)
    expected = BlockSparseMLP if style == "mlp" else BlockSparseLinear
    if style is not None and not isinstance(module, expected):
        raise Error(
            f"the plan has style `{style}` for `{name}`, which is a {type(module).__name__}\n"
            f"  help: this style is for a {expected.__name__}"
        )
    return style


def _divide_pair(parent: torch.nn.Module, columns: list[str], row: str, group: dist.ProcessGroup) -> None:
    """Divides layers, and the one that consumes their features."""
    layers, last = [getattr(parent, name) for name in columns], getattr(parent, row)
    if not layers:
        raise Error(
            f'the plan says "row" of `{row}`, and of no layer before it "column"\n'
            "  help: the features that it consumes are made by layers of the same module, which stand before it"
        )
    for layer in (*layers, last):
        _agree(layer, group)
    firsts, second = shard_hidden(layers, last, dist.get_world_size(group))
    for name, layer, sharding in zip(columns, layers, firsts):
        setattr(parent, name, ColumnParallelLinear(layer, group, sharding).train(layer.training))
    setattr(parent, row, RowParallelLinear(last, group, second).train(last.training))


@torch.no_grad()
def _agree(module: torch.nn.Module, group: dist.ProcessGroup) -> None:
    """Gives all ranks the numbers of the first; the patterns must be the same."""
    mine = [layer.pattern.key for layer in module.modules() if isinstance(layer, BlockSparseLinear)]
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, mine, group=group)
    for rank, keys in enumerate(everyone):
        if keys != everyone[0]:
            raise Error(
                f"rank {rank} has other patterns than rank 0\n  help: make the model of the same seed, or load it, on every rank"
            )
    first = dist.get_global_rank(group, 0)
    for parameter in module.parameters():
        dist.broadcast(parameter.data, first, group=group)
