"""What a peer is: ways to compute a product, of which the fastest right one is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from .case import Case


DENSE = "dense, equal work"
"""The name of what all are divided by."""

DENSE_ALL = "dense, all of it"
SEMI = "2:4, half of all"
WHOLE = (DENSE_ALL, SEMI)
"""Peers that keep other weights than the stored blocks: all of them, or half of all. They show what the layer takes
without block sparsity. None is called the best peer."""

Run = Callable[[], "torch.Tensor"]


class Refused(Exception):
    """The peer does not do this product; the message says why, in a line."""


@dataclass(frozen=True)
class Variant:
    """One way: `run` enqueues the product on the current stream and gives C, or the blocks of C. `error` tells how wrong
    that is where the product is of other weights than the case's; without it the case does."""

    words: str
    run: Run
    error: Callable[[torch.Tensor], float] | None = None


def lazy(make: Callable[[], Run]) -> Run:
    """A run that is made when it is first called, so that what a library refuses ends no more than this variant."""
    made: list[Run] = []

    def run() -> torch.Tensor:
        if not made:
            made.append(make())
        return made[0]()

    return run


class Peer(Protocol):
    """A library or a kernel. One object serves one row."""

    name: str

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The ways to compute `case`, the likeliest first; few if `quick`. Raises Refused, here or in `run`."""
