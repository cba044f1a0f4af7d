"""Numbers about times. Times are in microseconds, of GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(samples: Sequence[float], q: float) -> float:
    """Between the two nearest ranks by linear interpolation; NaN of nothing."""
    if not samples:
        return math.nan
    ordered = sorted(samples)
    rank = q * (len(ordered) - 1)
    low = math.floor(rank)
    high = math.ceil(rank)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def median(samples: Sequence[float]) -> float:
    """The median; NaN of nothing."""
    return quantile(samples, 0.5)


def summary(samples: Sequence[float]) -> dict[str, float | int]:
    """As `time_us` in docs/src/bench-schema.md."""
    return {
        "median": median(samples),
        "p10": quantile(samples, 0.1),
        "p90": quantile(samples, 0.9),
        "min": min(samples, default=math.nan),
        "samples": len(samples),
    }


def relative_ci(samples: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, relative to it: between the order statistics
    n / 2 -+ 1.96 sqrt(n) / 2. Infinite for fewer than 6 samples."""
    n = len(samples)
    if n < 6:
        return math.inf
    ordered = sorted(samples)
    reach = 1.96 * math.sqrt(n) / 2
    low = max(1, math.floor(n / 2 - reach)) - 1
    high = min(n - 1, math.ceil(n / 2 + reach))
    return (ordered[high] - ordered[low]) / 2 / median(ordered)


def tflops(flops: int, us: float) -> float:
    """TFLOP/s of `flops` operations in `us` microseconds; 0 for no time."""
    return flops / us / 1e6 if us > 0 else 0.0


def paired(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    """The median over rounds of ours / theirs, where both have a time: what drifts slower than a round cancels."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=False) if a is not None and b is not None]
    return median(ratios) if ratios else None
