"""The command."""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from . import ours, report, rows
from .supervise import Gone, Workers, progress
from .worker import Job

SCHEMA = 1


def main(arguments: list[str] | None = None) -> int:
    """0 if all was run, 1 if a row failed, 2 for bad input, 3 without a GPU."""
    args = parser().parse_args(arguments)
    try:
        chosen = rows.choose(args.rows)
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(f"{row.name:26} {row.words()}" for row in chosen))
        return 0
    bsr = find_bsr(args.bsr)
    if bsr is None and args.bsr is not None:
        print(f"error: {args.bsr} is no file", file=sys.stderr)
        return 2
    if bsr is None:
        print("without our kernels: there is no target/release/bsr, and no bsr on the PATH", file=sys.stderr)
    workers = Workers()
    try:
        machine = workers.machine()
    except Gone as gone:
        print(f"error: PyTorch, Triton and a GPU are needed\n  {gone}", file=sys.stderr)
        return 3
    print("; ".join(f"{key} {value}" for key, value in machine.items()))
    start = time.monotonic()
    entries: list[dict[str, Any]] = []
    failed = False
    try:
        for row in chosen:
            say = progress(row.name)
            job = Job(row, tuple(args.without), args.quick, args.budget_s, args.time_s)
            outcome = workers.time(job, say)
            mine = None
            if bsr is not None:
                say("bsr bench")
                mine = ours.time_row(bsr, row, args.time_s)
            say("")
            entry = report.record(row, outcome, mine)
            entries.append(entry)
            failed = failed or outcome.failed is not None
            print(report.row_text(row, entry), flush=True)
            if args.json is not None:
                write(args.json, machine, entries)
    finally:
        workers.end()
    print(f"\n## All rows: ratio to the dense library on equal work (TFLOP/s)\n\n{report.overview(entries)}")
    print(f"\n{len(entries)} rows in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        prog="python3 -m benches.peers",
        description="Times other block-sparse products, and `bsr bench`, each in turn with the dense library.",
    )
    flags.add_argument(
        "--rows", nargs="*", default=[], metavar="NAME", help="rows by name or shell pattern (default: all)"
    )
    flags.add_argument("--list", action="store_true", help="list the rows and stop")
    flags.add_argument(
        "--bsr", type=Path, metavar="PATH", help="the bsr binary (default: target/release/bsr, or the PATH)"
    )
    flags.add_argument("--json", type=Path, metavar="FILE", help="write everything measured, after each row")
    flags.add_argument("--quick", action="store_true", help="try three variants of each peer at most")
    flags.add_argument("--without", nargs="*", default=[], metavar="PEER", help="peers to leave out, by their names")
    flags.add_argument(
        "--budget-s", type=float, default=15.0, metavar="S", help="seconds to tune one peer on one row (15)"
    )
    flags.add_argument(
        "--time-s", type=float, default=2.0, metavar="S", help="seconds to time one row, after 20 rounds (2)"
    )
    return flags


def find_bsr(given: Path | None) -> Path | None:
    """The binary, if it is there."""
    if given is not None:
        return given.resolve() if given.is_file() else None
    built = Path(__file__).resolve().parents[2] / "target" / "release" / "bsr"
    if built.is_file():
        return built
    found = shutil.which("bsr")
    return Path(found) if found else None


def write(path: Path, machine: dict[str, str], entries: list[dict[str, Any]]) -> None:
    """The JSON, whole after each row."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    whole = {"schema": SCHEMA, "written": now, "machine": machine, "rows": entries}
    text = json.dumps(whole, indent=1, allow_nan=False)
    path.write_text(text + "\n")
