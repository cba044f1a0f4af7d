"""The work of an attention's gradient under a mask on a GPU, listed there.

The lists are those of the host (`runtime/src/attention/gradient/work.rs`), made by operations of PyTorch of sizes that do not depend on
the mask: nothing waits for the GPU, and a CUDA graph that captures them lists whatever the mask holds when it runs.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor


def blocks_of(mask: Any) -> Tensor:
    """A byte for each block of each pattern, patterns x rows x columns: 0 is not stored, 1 is whole and 2 partial.

    As where kernels check a :class:`DeviceMask`, a row that is wrong has no blocks, and nor has a mask of more than ``capacity``.
    """
    rows, columns = mask.grid
    if mask._derivation is not None:
        mask._derivation.refresh()
    if mask._bytes is not None:
        given = mask._bytes.reshape(-1, rows, columns)
        partial = given.to(torch.bool) if mask._is_scored else given.to(torch.uint8) > 1
        stored = (given != 0) & ((given != 0).sum() <= mask.capacity)
    else:
        stored, partial = _of_lists(mask, columns)
    return (stored.to(torch.uint8) + (stored & partial)).reshape(-1, rows, columns)


def _of_lists(mask: Any, columns: int) -> tuple[Tensor, Tensor]:
    """Which blocks are stored, and which of them are partial, by the rows of all patterns."""
    starts, indices = mask._pattern.row_ptr.long(), mask._pattern.col_idx[: max(1, mask.capacity)].long()
    first, end, room = starts[:-1], starts[1:], mask.capacity
    is_first = torch.arange(len(first), device=first.device) == 0
    right = (first >= 0) & (end >= first) & (end <= room) & ~(is_first & (first != 0)) & (end - first <= columns)
    if not columns or not len(indices):
        none = torch.zeros((len(first), columns), dtype=torch.bool, device=first.device)
        return none, none
    entries = torch.arange(columns, device=first.device)
    at = (first[:, None] + entries).clamp(0, len(indices) - 1)
    found, counted = indices[at], right[:, None] & (entries < (end - first)[:, None])
    before = torch.cat([torch.full_like(found[:, :1], -1), found[:, :-1]], dim=1)
    wrong = counted & ((found < 0) | (found >= columns) | (found <= before))
    counted &= ~wrong.any(dim=1, keepdim=True)
    flags = torch.ones_like(found, dtype=torch.uint8)
    if mask._is_scored:
        flags += 1
    elif mask._partial is not None:
        flags += (mask._partial[at] != 0).to(torch.uint8)
    # A column more takes what is no block.
    wide = torch.zeros((len(first), columns + 1), dtype=torch.uint8, device=first.device)
    wide.scatter_(1, torch.where(counted, found, columns), torch.where(counted, flags, 0))
    return wide[:, :columns] > 0, wide[:, :columns] > 1


class Lists:
    """The lists of one kernel for tensors of one shape: heads, tiles and steps, at places that stay."""

    def __init__(self, form: Any, mask: Any, q: tuple[int, ...], v: tuple[int, ...], device: torch.device) -> None:
        self.per, self.of_keys = mask.per, form.of_keys
        self.problems, self.heads, self.key_heads = q[0], q[1], v[1]
        (tile, own, self.run, self.other), (self.consumers, uniform) = form.rows, form.consumers
        queries, keys = q[2], v[2]
        (rows, others), of_own = ((keys, queries), v[1]) if self.of_keys else ((queries, keys), q[1])
        self.per_key_head, self.runs = self.heads // self.key_heads, -(-others // self.run)
        first = torch.arange(0, rows, tile, device=device)
        share = 0 if uniform else tile // self.consumers
        at = first[:, None] + share * torch.arange(self.consumers, device=device)
        self.block_rows, self.is_row = (at // own).clamp(max=-(-rows // own) - 1), at < rows
        problem, head, row = torch.meshgrid(
            torch.arange(self.problems, device=device), torch.arange(of_own, device=device), first, indexing="ij"
        )
        other = head * self.per_key_head if self.of_keys else head // self.per_key_head
        words, (_, self.stored, self.partial) = form.words[0], form.words
        self.words = torch.zeros((*row.shape, words), dtype=torch.int64, device=device)
        for place, word in enumerate((row, head, problem, other)):
            self.words[..., place] = word
        # Tiles that are in turn: those of heads together, the longest first, to CTAs in a snake.
        ctas, together, self.tile_rows = form.schedule
        key_head = head if self.of_keys else other
        self.group = ((problem * self.key_heads + key_head) // together).flatten()
        tiles = row.numel()
        self.ctas = max(1, min(ctas, tiles))
        rounds = torch.arange(tiles, device=device) // self.ctas
        place = torch.arange(tiles, device=device) % self.ctas
        cta = torch.where(rounds % 2 == 0, place, self.ctas - 1 - place)
        self.turn = torch.argsort(cta * tiles + rounds)
        # Of the last round, which few CTAs have, the snake says which.
        whole, rest = divmod(tiles, self.ctas)
        numbers = torch.arange(self.ctas + 1, device=device)
        beside = numbers.clamp(max=rest) if whole % 2 == 0 else (numbers - (self.ctas - rest)).clamp(min=0)
        self.places = (
            (whole * numbers + beside).to(torch.int32),
            torch.zeros((tiles, words), dtype=torch.int32, device=device),
            torch.zeros((self._lists(mask) * self._slots(), 2), dtype=torch.int32, device=device),
        )

    def _slots(self) -> int:
        """Steps that a tile has room for."""
        return max(1, self.runs * (self.per_key_head if self.of_keys else 1))

    def _lists(self, mask: Any) -> int:
        """Tiles that have steps of their own."""
        problems = self.problems if mask.per in ("problem", "both") else 1
        heads = (self.key_heads if self.of_keys else self.heads) if mask.per in ("head", "both") else 1
        return problems * heads * len(self.block_rows)

    def native(self) -> tuple:
        """CTAs, and address and words of each list."""
        return self.ctas, *((tensor.data_ptr(), tensor.numel()) for tensor in self.places)

    def refresh(self, blocks: Tensor) -> None:
        """Lists the work of these blocks, patterns x rows x columns."""
        steps, totals, counts = self._of_patterns(blocks)
        if self.of_keys:
            steps, totals, counts = self._of_groups(steps, totals, counts)
        _, tiles, places = self.places
        problems, heads, rows = totals.shape
        first = torch.arange(totals.numel(), device=totals.device).reshape(problems, heads, rows) * steps.shape[-2]
        words = self.words.clone()
        words[..., 4], words[..., 5] = first, totals
        words[..., 6 : 6 + self.consumers] = counts
        cost = counts.amax(dim=-1).expand(words.shape[:-1]).flatten() * self.run + self.tile_rows
        order = torch.argsort(self.group * (cost.max() + 1) - cost, stable=True)
        tiles.copy_(words.flatten(0, -2)[order][self.turn])
        places.copy_(steps.reshape(places.shape))

    def _of_patterns(self, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The steps of the tiles of each pattern, how many there are, and how many of each consumer."""
        problems = self.problems if self.per in ("problem", "both") else 1
        heads = self.heads if self.per in ("head", "both") else 1
        blocks = blocks.mT if self.of_keys else blocks
        of_consumers = blocks[:, self.block_rows] * self.is_row[..., None]
        of_runs = of_consumers[..., None].expand(*of_consumers.shape, self.other // self.run)
        of_runs = of_runs.flatten(-2)[..., : self.runs].long()
        bits = 1 << torch.arange(self.consumers, device=blocks.device)[:, None]
        stored, scored = ((of_runs > least).long().mul(bits).sum(dim=-2) for least in (0, 1))
        numbers = torch.arange(self.runs, device=blocks.device)
        order = torch.argsort(self._turns(stored), dim=-1, stable=True)
        words = (numbers | stored * self.stored | scored * self.partial).gather(-1, order)
        steps = torch.stack([words, torch.zeros_like(words)], dim=-1).to(torch.int32)
        counts = (of_runs > 0).sum(dim=-1)
        shape = (problems, heads, len(self.block_rows))
        return (
            steps.reshape(*shape, self.runs, 2),
            (stored > 0).sum(dim=-1).reshape(shape),
            counts.reshape(*shape, self.consumers),
        )

    def _turns(self, stored: Tensor) -> Tensor:
        """Where each run comes among those of its tile: first those that all consumers store, then those of each in turn, so that
        none waits long for its next."""
        every, beyond = (1 << self.consumers) - 1, 4 * self.runs + 4
        whole = stored == every
        turns = torch.where(whole, whole.cumsum(-1), beyond)
        for number in range(1, every if self.consumers == 2 else 1):
            alone = stored == number
            turns = torch.where(alone, self.runs + 2 * alone.cumsum(-1) + number, turns)
        return turns

    def _of_groups(self, steps: Tensor, totals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The steps of all heads of Q that share a head of K and V, one head after the other."""
        problems, heads, rows, runs, _ = steps.shape
        group = self.per_key_head
        shape = (problems, heads // group, group) if heads > 1 else (problems, 1, group)
        if heads == 1:
            steps, totals, counts = (of.expand(problems, group, *of.shape[2:]) for of in (steps, totals, counts))
        totals, counts = totals.reshape(*shape, rows), counts.reshape(*shape, rows, self.consumers).sum(dim=2)
        # problems x heads of K x rows of tiles x heads of Q x steps
        steps = steps.reshape(*shape, rows, runs, 2).transpose(2, 3).clone()
        steps[..., 1] = torch.arange(group, device=steps.device, dtype=torch.int32)[:, None]
        numbers = torch.arange(runs, device=steps.device)
        empty = (numbers >= totals.transpose(2, 3)[..., None]).flatten(-2)
        order = torch.argsort(empty.to(torch.uint8), dim=-1, stable=True)[..., None].expand(*empty.shape, 2)
        return steps.flatten(-3, -2).gather(-2, order), totals.sum(dim=2), counts


class DeviceWork:
    """The work of a mask on a GPU for both kernels of a gradient, made anew after the mask has changed."""

    def __init__(self, loaded: Any, mask: Any, q: tuple[int, ...], v: tuple[int, ...], device: torch.device) -> None:
        # The mask's own end is that of its work.
        self.mask, self.made = weakref.ref(mask), -1
        self.was_listed, self.graph = False, None
        self.lists = [Lists(form, mask, q, v, device) for form in loaded.forms(list(q), list(v))]
        self.native = loaded.listed(list(q), list(v), [lists.native() for lists in self.lists])

    def launch(self, launch: Any, *places: Any) -> None:
        """A launch on the work, which is listed ahead of it."""
        self.refresh()
        launch(*places)

    def refresh(self) -> None:
        """Lists the work, unless it is that of the mask as it is; in a graph that is captured, always. Nothing synchronizes."""
        mask, captured = self.mask(), torch.cuda.is_current_stream_capturing()
        if mask is None or (self.made == mask.generation and not captured):
            return
        if captured or not self.was_listed:
            self._list(mask)
        else:
            self._replay(mask)
        self.was_listed |= not captured
        self.made = -1 if captured else mask.generation

    def _list(self, mask: Any) -> None:
        blocks = blocks_of(mask)
        for lists in self.lists:
            lists.refresh(blocks)

    def _replay(self, mask: Any) -> None:
        """The same as a graph: its hundred small operations would cost the host more than the attention takes."""
        if self.graph is None:
            graph, stream, current = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.current_stream()
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                self._list(mask)
                graph.capture_end()
            current.wait_stream(stream)
            self.graph = graph
        self.graph.replay()


def is_listed(form: Any) -> bool:
    """Whether the steps of a kernel are listed here: of three consumers only those that compute the same blocks."""
    consumers, uniform = form.consumers
    return consumers < 3 or uniform
