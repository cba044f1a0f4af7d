"""Timing in turn, A B A B, each launch from an L2 cache that is cold and clean.

What `bsr bench` does, in PyTorch: an event pair around each launch, before it 256 MiB that are written and others that
are read, rounds enqueued without waiting. A launch must not be timed while the host is still preparing it: a sample
counts only if the launch had been enqueued before its start event fired, and the GPU is kept busy ahead of each batch
for as long as that takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .stats import median, relative_ci

if TYPE_CHECKING:
    import torch

Launch = Callable[[], object]

L2 = "clean"
"""How the L2 cache is before each launch, in the words of docs/src/bench-schema.md."""


class Event(Protocol):
    """A point in the GPU's work."""

    def record(self) -> None:
        """Enqueues it."""

    def query(self) -> bool:
        """Whether the GPU has passed it."""

    def elapsed_time(self, end: Any, /) -> float:
        """Milliseconds to another."""


class Gpu(Protocol):
    """What timing needs of a GPU; a test has one of its own."""

    def event(self) -> Event:
        """A new event."""

    def flush(self) -> None:
        """Enqueues what leaves the L2 cache cold and clean."""

    def busy(self, us: float) -> None:
        """Enqueues doing nothing for about so long."""

    def wait(self) -> None:
        """Waits for all that is enqueued."""


class L2Flush:
    """Writes one buffer, which pushes everything out of the L2 cache, then reads another one. After the writing alone
    the cache would be full of lines that are not in memory yet, and the timed launch would pay for moving them there.

    Both are as long; a call is two kernels, and allocates nothing.
    """

    ROWS = 8192
    """A sum each: enough that the reduction needs no second pass."""

    def __init__(self, size: int, device: str) -> None:
        import torch

        self._sum: Callable[..., torch.Tensor] = torch.sum
        columns = -(-size // (4 * self.ROWS))
        self.written = torch.empty(self.ROWS, columns, dtype=torch.float32, device=device)
        self.read = torch.zeros(self.ROWS, columns, dtype=torch.float32, device=device)
        self.sums = torch.empty(self.ROWS, dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Enqueues the writing and the reading."""
        self.written.zero_()
        self._sum(self.read, dim=1, out=self.sums)


class Cuda:
    """The current device of PyTorch, on its current stream."""

    LEAST_FLUSHED = 256 << 20
    """Bytes; twice the L2 cache where that is more."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        size = max(self.LEAST_FLUSHED, 2 * torch.cuda.get_device_properties().L2_cache_size)
        self._flush = L2Flush(size, "cuda")

    def event(self) -> Event:
        """A new event."""
        event: Event = self._torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return event

    def flush(self) -> None:
        """Enqueues what leaves the L2 cache cold and clean."""
        self._flush()

    def busy(self, us: float) -> None:
        """Enqueues doing nothing for about so long: cycles at 2 GHz."""
        self._torch.cuda._sleep(int(us * 2000))  # type: ignore[no-untyped-call]

    def wait(self) -> None:
        """Waits for all that is enqueued."""
        self._torch.cuda.synchronize()


@dataclass(frozen=True)
class Limits:
    """When to stop. Seconds of wall clock; the target is half the 95 % interval of each median, relative to it."""

    warmup_s: float = 1.0
    time_s: float = 2.5
    least: int = 20
    most: int = 200
    target: float = 0.005


@dataclass
class Samples:
    """Microseconds of each round; `late` where the host was still preparing the launch."""

    us: list[float] = field(default_factory=list)
    late: list[bool] = field(default_factory=list)

    LEAST_ON_TIME = 6

    @property
    def host_bound(self) -> bool:
        """Whether too few samples are of the GPU alone, so that all must serve."""
        return self.late.count(False) < min(self.LEAST_ON_TIME, len(self.late))

    def by_round(self) -> list[float | None]:
        """The samples that count, in the place of their round."""
        every = self.host_bound
        return [us if every or not late else None for us, late in zip(self.us, self.late, strict=True)]

    def counted(self) -> list[float]:
        """The samples that count."""
        return [us for us in self.by_round() if us is not None]


class Turns:
    """Launches that take turns."""

    LAUNCHES = 64
    MOST_AHEAD_US = 60_000.0

    def __init__(self, gpu: Gpu, launches: Mapping[str, Launch], clock: Callable[[], float] = time.monotonic) -> None:
        self._gpu = gpu
        self._launches = launches
        self._clock = clock
        self._batch = max(1, self.LAUNCHES // len(launches))
        self._events: list[tuple[Event, Event]] = []
        self._ahead_us = 500.0
        self.samples = {name: Samples() for name in launches}

    def run(self, limits: Limits) -> dict[str, Samples]:
        """Warms up, then times until the medians are known or a limit is reached."""
        start = self._clock()
        batch = min(self._batch, limits.most)
        self._rounds(batch, keep=False)
        while self._clock() - start < limits.warmup_s:
            self._rounds(batch, keep=False)
        start, done = self._clock(), 0
        while done < limits.most:
            rounds = min(batch, limits.most - done)
            self._rounds(rounds, keep=True)
            done += rounds
            worst = max(relative_ci(samples.counted()) for samples in self.samples.values())
            if done >= limits.least and (worst < limits.target or self._clock() - start > limits.time_s):
                break
        return self.samples

    def _rounds(self, rounds: int, keep: bool) -> None:
        gpu, launches = self._gpu, list(self._launches.items())
        while len(self._events) < rounds * len(launches):
            self._events.append((gpu.event(), gpu.event()))
        pairs, late = iter(self._events), []
        gpu.busy(self._ahead_us)
        for _ in range(rounds):
            for _, launch in launches:
                begin, end = next(pairs)
                gpu.flush()
                begin.record()
                launch()
                late.append(begin.query())
                end.record()
        gpu.wait()
        if any(late):
            self._ahead_us = min(2 * self._ahead_us, self.MOST_AHEAD_US)
        if keep:
            for at, ((begin, end), was_late) in enumerate(zip(self._events, late, strict=False)):
                samples = self.samples[launches[at % len(launches)][0]]
                samples.us.append(begin.elapsed_time(end) * 1e3)
                samples.late.append(was_late)


def glance(gpu: Gpu, launch: Launch, repeats: int = 5) -> float:
    """The median of a few launches, to choose among variants; microseconds."""
    limits = Limits(warmup_s=0.0, time_s=0.5, least=repeats, most=repeats, target=0.0)
    return median(Turns(gpu, {"": launch}).run(limits)[""].counted())
