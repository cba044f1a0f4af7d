"""Attention beside other libraries, as a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..suite import Peer, Problem, Suite
from .cases import GROUPS


def load() -> tuple[Callable[[Any], Problem], Mapping[str, Sequence[Peer]]]:
    """The tensors of a row, and who is timed."""
    from . import peers, problem

    return problem.Problem, peers.OF_GROUP


SUITE = Suite(
    command="benches.peers.attention",
    about="Times attention beside that of other libraries.",
    groups=GROUPS,
    load=load,
    distributions=(
        "torch",
        "triton",
        "flashinfer-python",
        "flash-attn-4",
        "nvidia-cudnn-frontend",
        "nvidia-cutlass-dsl",
    ),
)
