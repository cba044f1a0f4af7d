"""Small blocks, and sparse times sparse, beside cuSPARSE, as a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..suite import Peer, Problem, Suite
from .cases import GROUPS, Pairs


def load() -> tuple[Callable[[Any], Problem], Mapping[str, Sequence[Peer]]]:
    """The tensors of a row, and who is timed."""
    from . import pairs, vectors

    def problem(case: Any) -> Problem:
        return pairs.Product(case) if isinstance(case, Pairs) else vectors.Product(case)

    return problem, {"random": vectors.PEERS, "mesh": vectors.PEERS, "pairs": pairs.PEERS}


SUITE = Suite(
    command="benches.peers.sparse",
    about="Times products with small blocks, and sparse times sparse, beside cuSPARSE.",
    groups=GROUPS,
    load=load,
    distributions=("torch", "nvidia-cusparse", "nvidia-cusparse-cu12"),
)
