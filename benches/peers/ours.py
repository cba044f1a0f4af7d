"""Our kernels, by `bsr bench` in a process of its own, beside its own timing of the dense library."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import pattern as patterns
from .rows import Row

# The products for which `bsr bench --matrix FILE` takes the sparse operand as the peers have it. For the others the
# pattern is drawn by `bsr`: of the same class, as many blocks, other places.
SHARES_MATRIX = ("dsd",)


@dataclass
class Ours:
    """The records of `bsr bench` (docs/src/bench-schema.md), and why a spec has none."""

    records: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    shared: bool = False
    """Whether the peers multiplied the very same matrix."""


def time_row(bsr: Path, row: Row, time_s: float, timeout_s: float = 240.0) -> Ours:
    """Plans every spec of the row, and times those that can be planned in one run."""
    ours = Ours(shared=row.op in SHARES_MATRIX)
    planned = []
    for spec in row.specs:
        done = _run([str(bsr), "plan", spec], timeout_s)
        if done.returncode:
            ours.refused[spec] = _reason(done)
        else:
            planned.append(spec)
    if not planned:
        return ours
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "records.jsonl"
        command = [str(bsr), "bench", *planned, *problem(row, Path(folder), ours.shared)]
        done = _run([*command, "--time-limit", str(time_s), "--json", str(out)], timeout_s)
        lines = out.read_text().splitlines() if out.exists() else []
    ours.records = [json.loads(line) for line in lines]
    if not ours.records:
        ours.refused |= dict.fromkeys(planned, _reason(done))
    for record in list(ours.records):
        flops, counted = row.executed_flops(record["problem"]["nnzb"]), record["executed_flops"]
        if counted != flops:
            ours.records.remove(record)
            ours.refused[record["spec"]] = f"not the row's work: bsr counts {counted} operations, the row {flops}"
    return ours


def problem(row: Row, folder: Path, shared: bool) -> list[str]:
    """The PROBLEM flags; writes the matrix where it is shared."""
    seed = ["--seed", str(row.seed)]
    if not shared:
        return ["--m", str(row.m), "--n", str(row.n), "--k", str(row.k), "--pattern", row.pattern, *seed]
    path = folder / f"{row.name}.npz"
    pattern = patterns.draw(*row.sparse_shape, row.block, row.pattern, row.seed)
    pattern.save(path, pattern.values(row.seed))
    return ["--matrix", str(path), "--n", str(row.n), *seed]


def _run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"error: no end within {timeout_s:.0f} s")
    except OSError as problem:
        return subprocess.CompletedProcess(command, 127, "", f"error: {command[0]}: {problem}")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first line that says what is wrong."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error")]
    line = (errors or lines or [f"exit code {done.returncode}"])[0]
    return line.removeprefix("error: ")
