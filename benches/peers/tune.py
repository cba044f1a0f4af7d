"""Which variant of a peer is timed: of those that are right the fastest, found within a budget."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass

import torch

from .case import Case
from .peer import Peer, Refused, Variant
from .timing import Gpu, glance


@dataclass(frozen=True)
class Chosen:
    """A variant with its error, and how many were tried."""

    variant: Variant
    error: float
    tried: int
    us: float


class Fatal(Exception):
    """The CUDA context is lost; the process must end."""


def choose(peer: Peer, case: Case, gpu: Gpu, quick: bool, budget_s: float) -> Chosen:
    """Tries the variants of `peer` for at most `budget_s` seconds, each checked before it is timed.

    Raises Refused, with the first reason, if none is right; Fatal if one has broken the context.
    """
    start = time.monotonic()
    best: Chosen | None = None
    reasons: list[str] = []
    tried = 0
    for variant in peer.variants(case, quick):
        if tried and time.monotonic() - start > budget_s:
            if best is None:
                reasons.insert(0, f"not timed: budget of {budget_s:g} s; {reasons[0]}")
            break
        tried += 1
        try:
            error = check(variant, case)
        except Exception as problem:  # A peer may raise anything; what it says is the result.
            alive(problem)
            reasons.append(said(problem))
            continue
        if not case.is_right(error):
            reasons.append(f"wrong result, relative error {error:.1e}")
            continue
        us = glance(gpu, variant.run)
        if best is None or us < best.us:
            best = Chosen(variant, error, tried, us)
    if best is None:
        raise Refused(reasons[0] if reasons else "not timed: nothing to try")
    return Chosen(best.variant, best.error, tried, best.us)


def check(variant: Variant, case: Case) -> float:
    """Multiplies into a poisoned C; the relative error."""
    case.poison()
    result = variant.run()
    torch.cuda.synchronize()
    error = variant.error or case.error_of
    return error(result)


def alive(problem: BaseException) -> None:
    """Raises Fatal if the context does not answer."""
    try:
        torch.cuda.synchronize()
    except Exception as gone:
        raise Fatal(said(problem)) from gone


def said(problem: BaseException) -> str:
    """An exception in a line: a refusal's own words, otherwise with its type."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    where = traceback.extract_tb(problem.__traceback__)
    line = lines[0] if lines else f"no message, {where[-1].filename}:{where[-1].lineno}" if where else "no message"
    words = line if isinstance(problem, Refused) else f"{type(problem).__name__}: {line}"
    return words if len(words) <= 160 else words[:157] + "..."
