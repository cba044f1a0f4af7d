"""A command that times groups of rows: each group in a process of its own, everyone of a row in turn."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .stats import median, paired, summary, tflops
from .timing import Cuda, Limits, Samples, Turns

LONG = 8.0
"""A peer that takes longer than so many times ours is timed alone, a few times: the others would wait for it in each round."""
VERY_LONG_US = 2e5
"""Of a peer that takes as long, the second launch is all that is timed."""


class Row(Protocol):
    """What is timed."""

    @property
    def group(self) -> str:
        """Rows that have the same peers."""

    @property
    def name(self) -> str:
        """What it is, for people; no two rows have one."""

    @property
    def flops(self) -> int:
        """Operations that count."""

    @property
    def bytes(self) -> int:
        """Bytes that must be moved at least."""


class Problem(Protocol):
    """The tensors of a row."""

    tolerance: float
    """The greatest relative error."""

    def error(self, found: Any, /) -> float:
        """The relative error of a result."""


@dataclass(frozen=True)
class Entry:
    """A launch of somebody's, and how its result is read."""

    who: str
    run: Callable[[], Any]
    seen: Callable[[Any], Any] = lambda found: found


Peer = Callable[[Any], Iterable[Entry]]


@dataclass(frozen=True)
class Suite:
    """What a command times. Ours are the entries whose names begin with `bsr`; `bsr` alone is what others are divided by."""

    command: str
    """The module, as `python3 -m` takes it."""
    about: str
    groups: Mapping[str, Callable[[], Iterator[Row]]]
    load: Callable[[], tuple[Callable[[Any], Problem], Mapping[str, Sequence[Peer]]]]
    """What makes the tensors of a row, and who is timed of each group; imports PyTorch."""
    distributions: tuple[str, ...]
    """Whose versions are told."""

    def choose(self, groups: list[str], quick: bool) -> list[Any]:
        """The rows of some groups; with `quick` the first and the last of each."""
        chosen: list[Any] = []
        for group in groups or self.groups:
            rows = list(self.groups[group]())
            chosen += [rows[0], rows[-1]] if quick else rows
        return chosen

    def main(self, arguments: list[str] | None = None) -> int:
        """0 if all was run, 1 if a group failed."""
        args = self.parser().parse_args(arguments)
        if args.list:
            print("\n".join(f"{case.group:8} {case.name}" for case in self.choose(args.groups, args.quick)))
            return 0
        if len(args.groups) == 1:
            return self.one_group(args)
        failed = False
        for group in args.groups or self.groups:
            command = [sys.executable, "-m", self.command, "--groups", group, "--time-s", str(args.time_s)]
            command += ["--quick"] if args.quick else []
            command += ["--read-roof", str(args.read_roof)] if args.read_roof else []
            command += ["--json", str(args.json.with_suffix(f".{group}.json"))] if args.json else []
            failed |= subprocess.run(command, check=False).returncode != 0
        return int(failed)

    def parser(self) -> argparse.ArgumentParser:
        """The flags."""
        flags = argparse.ArgumentParser(prog=f"python3 -m {self.command}", description=self.about)
        names = [*self.groups]
        flags.add_argument("--groups", nargs="*", default=[], choices=names, metavar="GROUP", help=" ".join(names))
        flags.add_argument("--list", action="store_true", help="list the rows and stop")
        flags.add_argument("--quick", action="store_true", help="the first and the last row of each group")
        flags.add_argument("--time-s", type=float, default=1.0, metavar="S", help="seconds to time one row (1)")
        roof = "what the memory reads, as `bsr doctor --roofs`"
        flags.add_argument("--read-roof", type=float, metavar="GB/S", help=roof)
        kept = "everything measured, after each row; one per group"
        flags.add_argument("--json", type=Path, metavar="FILE", help=kept)
        return flags

    def one_group(self, args: argparse.Namespace) -> int:
        """Times the rows of a group in this process."""
        import torch

        installed = "; ".join(f"{name} {version}" for name, version in self.versions().items())
        words = f"{torch.cuda.get_device_name()}; {installed}"
        print(f"\n# {args.groups[0]}: {words}", flush=True)
        entries: list[dict[str, Any]] = []
        start = time.monotonic()
        with torch.no_grad():
            for case in self.choose(args.groups, args.quick):
                try:
                    entry = self.time_case(case, args)
                except Exception as problem:  # A row that does not fit into memory leaves the others.
                    entry = {"name": case.name, "failed": reason(problem)}
                entries.append(entry)
                print(text(entry), flush=True)
                torch.cuda.empty_cache()
                if args.json is not None:
                    whole = {"schema": 1, "machine": words, "rows": entries}
                    args.json.write_text(json.dumps(whole, indent=1) + "\n")
        print(f"\n{len(entries)} rows in {time.monotonic() - start:.0f} s", flush=True)
        return int(any("failed" in entry for entry in entries))

    def versions(self) -> dict[str, str]:
        """What is installed of what is timed, and cuDNN's own number."""
        import torch

        found = {}
        for name in self.distributions:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found | {"cuDNN": str(torch.backends.cudnn.version())}

    def time_case(self, case: Any, args: argparse.Namespace) -> dict[str, Any]:
        """Everyone's result compared, then all who are right timed in turn."""
        import torch

        problem_of, peers_of = self.load()
        problem = problem_of(case)
        launches: dict[str, Callable[[], Any]] = {}
        errors, refused = {}, {}
        for peer in peers_of[case.group]:
            try:
                for entry in peer(problem):
                    try:
                        error = problem.error(entry.seen(entry.run()))
                        torch.cuda.synchronize()
                    except Exception as why:  # A peer may raise anything.
                        refused[entry.who] = reason(why)
                        continue
                    if not error < problem.tolerance:
                        refused[entry.who] = f"wrong: a relative error of {error:.1e}"
                        continue
                    launches[entry.who], errors[entry.who] = entry.run, error
            except Exception as why:
                refused[getattr(peer, "__name__", type(peer).__name__)] = reason(why)
        timed, alone = in_turn(launches, Limits(warmup_s=0.3, time_s=args.time_s, least=15))
        mine = timed.get("bsr")
        peers = []
        for who, samples in (timed | alone).items():
            us = median(samples.counted())
            ratio = paired(samples.by_round(), mine.by_round()) if mine else None
            if mine and who in alone:
                ratio = us / median(mine.counted())
            one = {
                "who": who,
                "ratio": ratio,
                "time_us": summary(samples.counted()),
                "host_bound": samples.host_bound,
                "alone": who in alone,
                "tflops": tflops(case.flops, us),
                "gb_s": case.bytes / us / 1e3,
                "of_roof": case.bytes / us / 1e3 / args.read_roof if args.read_roof else None,
                "relative_error": errors[who],
            }
            peers.append(one)
        others = [one for one in peers if not one["who"].startswith("bsr")]
        best = min(others, key=lambda one: one["time_us"]["median"], default=None)
        of_case = {"flops": case.flops, "bytes": case.bytes, "peers": peers, "refused": refused}
        return {"name": case.name, **of_case, "best": best and {key: best[key] for key in ("who", "ratio")}}


def in_turn(launches: dict[str, Callable[[], Any]], limits: Limits) -> tuple[dict[str, Samples], dict[str, Samples]]:
    """The samples of those that take turns, and of those that take too long for that."""
    gpu = Cuda()
    once = Limits(warmup_s=0.0, time_s=0.0, least=1, most=1, target=0.0)
    alone = {who: Turns(gpu, {who: launch}).run(once)[who] for who, launch in launches.items()}
    first = {who: samples.us[0] for who, samples in alone.items()}
    least = LONG * first.get("bsr", min(first.values(), default=0.0))
    slow = {who for who, us in first.items() if us > max(least, 1e3)}
    few = Limits(warmup_s=0.0, time_s=0.5, least=5, most=5, target=0.0)
    for who in slow:
        if first[who] < VERY_LONG_US:
            alone[who] = Turns(gpu, {who: launches[who]}).run(few)[who]
    together = {who: launch for who, launch in launches.items() if who not in slow}
    timed = Turns(gpu, together).run(limits) if together else {}
    return timed, {who: samples for who, samples in alone.items() if who in slow}


def reason(problem: BaseException) -> str:
    """The first line of an error."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0].strip()[:160]}" if lines else type(problem).__name__


def text(entry: dict[str, Any]) -> str:
    """A row for people: times over ours first, the fastest at the top."""
    lines = [f"\n## {entry['name']}"]
    if "failed" in entry:
        return "\n".join([*lines, f"failed: {entry['failed']}"])
    if entry["best"]:
        lines[0] += f": {entry['best']['who']} takes {entry['best']['ratio'] or float('nan'):.3f} times ours"
    lines.append("ratio      us     p10     p90  TFLOP/s    GB/s  of roof   error  who")
    for one in sorted(entry["peers"], key=lambda one: one["time_us"]["median"]):
        of = one["time_us"]
        ratio = f"{one['ratio']:.3f}" if one["ratio"] else "    -"
        roof = f"{one['of_roof']:7.3f}" if one["of_roof"] else "      -"
        times = " ".join(f"{of[key]:7.1f}" for key in ("median", "p10", "p90"))
        late = " (with time of the host)" if one["host_bound"] else ""
        late += " (alone)" if one.get("alone") else ""
        rates = f"{one['tflops']:8.1f} {one['gb_s']:7.0f} {roof} {one['relative_error']:7.1e}"
        lines.append(f"{ratio} {times} {rates}  {one['who']}{late}")
    lines += [f"    - {who}: {why}" for who, why in entry["refused"].items()]
    return "\n".join(lines)
