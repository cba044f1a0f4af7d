"""What the simulator has found in a kernel of any origin."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from ._native import Error


@dataclass(frozen=True)
class Source:
    """A place in the source that a line of PTX was compiled from."""

    file: str
    line: int
    column: int
    """From 1; 0 where the compiler gave none."""
    inlined: tuple[tuple[str, int], ...]
    """Where the function that has the line was inlined, innermost first."""

    @property
    def in_kernel(self) -> tuple[str, int]:
        """File and line in the kernel itself: of a function that was inlined, the line that calls it."""
        return self.inlined[-1] if self.inlined else (self.file, self.line)


@dataclass(frozen=True)
class Place:
    """An instruction that takes part in a finding, and who executes it."""

    line: int
    """Of the PTX, from 1."""
    text: str
    does: str
    block: int
    """Its rank in its cluster."""
    warp: int
    lanes: int
    """A mask."""
    source: Source | None
    """None where the text has no ``.loc``."""


@dataclass(frozen=True)
class Finding:
    """A defect, or what looks like one."""

    kind: str
    """Its class: ``race``, ``out-of-bounds``; the book explains each."""
    level: str
    """``error``, or ``note`` for what is common and does no harm."""
    message: str
    places: tuple[Place, ...]
    """The instructions, the later one first."""
    schedules: tuple[str, ...]
    """The schedules that showed it."""
    times: int
    allowed: str | None
    """Why it is accepted, if it is."""

    @property
    def is_error(self) -> bool:
        """Whether the kernel fails for it: no note, and not accepted."""
        return self.level == "error" and self.allowed is None

    @property
    def line(self) -> int | None:
        """The line of the PTX of the first instruction."""
        return self.places[0].line if self.places else None

    @property
    def source(self) -> tuple[str, int] | None:
        """File and line in the kernel's source of the first instruction that has one."""
        known = (place.source for place in self.places if place.source is not None)
        return next((source.in_kernel for source in known), None)


@dataclass(frozen=True)
class SanitizeReport:
    """What `sanitize` has found. ``print(report)`` explains it."""

    entry: str
    findings: tuple[Finding, ...]
    arrays: dict[Hashable, Any] = field(repr=False)
    """What each array holds after the first schedule, by the argument's name or, of PTX, its position."""
    schedules: tuple[str, ...]
    steps: int
    """Warp instructions that were executed, over all schedules."""
    seconds: float
    notes: tuple[str, ...]
    """What was not shown or not used: prints of the kernel, rules of ``allow`` without a finding."""
    ptx: str = field(repr=False)
    text: str = field(repr=False)
    """The report in words, as ``bsr sanitize`` prints it."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which the kernel fails."""
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def passed(self) -> bool:
        """Whether there are none."""
        return not self.errors

    def __str__(self) -> str:
        return self.text


class SanitizeError(Error):
    """The findings of ``sanitize(.., check=True)`` in words; ``report`` has them as data."""

    def __init__(self, report: SanitizeReport) -> None:
        super().__init__(report.text)
        self.report = report


def report_of(told: str, text: str, arrays: dict[Hashable, Any], notes: list[str], ptx: str) -> SanitizeReport:
    """The report from its JSON."""
    data = json.loads(told)
    return SanitizeReport(
        entry=data["entry"],
        findings=tuple(map(_finding, data["findings"])),
        arrays=arrays,
        schedules=tuple(data["schedules"]),
        steps=data["warp_instructions"],
        seconds=data["seconds"],
        notes=tuple(notes),
        ptx=ptx,
        text=text,
    )


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        kind=data["class"],
        level=data["level"],
        message=data["message"],
        places=tuple(map(_place, data["places"])),
        schedules=tuple(data["schedules"]),
        times=data["times"],
        allowed=data["allowed"],
    )


def _place(data: dict[str, Any]) -> Place:
    source = data["source"]
    if source is not None:
        inlined = tuple((at["file"], at["line"]) for at in source["inlined"])
        source = Source(source["file"], source["line"], source["column"], inlined)
    return Place(data["line"], data["text"], data["does"], data["block"], data["warp"], data["lanes"], source)
