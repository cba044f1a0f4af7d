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


class Refused(Exception):
    """The peer does not do this product; the message says why, in a line."""


@dataclass(frozen=True)
class Variant:
    """One way: `run` enqueues the product on the current stream and gives C, or the blocks of C."""

    words: str
    run: Callable[[], torch.Tensor]


class Peer(Protocol):
    """A library or a kernel. One object serves one row."""

    name: str

    def variants(self, case: Case, quick: bool) -> Iterator[Variant]:
        """The ways to compute `case`, the likeliest first; few if `quick`. Raises Refused, here or in `run`."""
