"""The command: rows of a group in a process of their own, everyone of a row in turn."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..stats import median, paired, summary, tflops
from ..timing import Cuda, Limits, Turns
from .cases import GROUPS, Case, choose

TOLERANCE = 1.5e-2
"""Greatest relative error against f64."""
DISTRIBUTIONS = ("torch", "triton", "flashinfer-python", "flash-attn-4", "nvidia-cudnn-frontend", "nvidia-cutlass-dsl")


def main(arguments: list[str] | None = None) -> int:
    """0 if all was run, 1 if a group failed."""
    args = parser().parse_args(arguments)
    if args.list:
        print("\n".join(f"{case.group:8} {case.name}" for case in choose(args.groups, args.quick)))
        return 0
    if len(args.groups) == 1:
        return one_group(args)
    failed = False
    for group in args.groups or GROUPS:
        command = [sys.executable, "-m", "benches.peers.attention", "--groups", group, "--time-s", str(args.time_s)]
        command += ["--quick"] if args.quick else []
        command += ["--read-roof", str(args.read_roof)] if args.read_roof else []
        command += ["--json", str(args.json.with_suffix(f".{group}.json"))] if args.json else []
        failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        prog="python3 -m benches.peers.attention", description="Times attention beside that of other libraries."
    )
    flags.add_argument("--groups", nargs="*", default=[], choices=[*GROUPS], metavar="GROUP", help=" ".join(GROUPS))
    flags.add_argument("--list", action="store_true", help="list the rows and stop")
    flags.add_argument("--quick", action="store_true", help="the first and the last row of each group")
    flags.add_argument("--time-s", type=float, default=1.0, metavar="S", help="seconds to time one row (1)")
    flags.add_argument("--read-roof", type=float, metavar="GB/S", help="what the memory reads, as `bsr doctor --roofs`")
    flags.add_argument("--json", type=Path, metavar="FILE", help="everything measured, after each row; one per group")
    return flags


def one_group(args: argparse.Namespace) -> int:
    """Times the rows of a group in this process."""
    import torch

    words = f"{torch.cuda.get_device_name()}; {'; '.join(f'{k} {v}' for k, v in versions().items())}"
    print(f"\n# {args.groups[0]}: {words}", flush=True)
    entries: list[dict[str, Any]] = []
    start = time.monotonic()
    with torch.no_grad():
        for case in choose(args.groups, args.quick):
            try:
                entry = time_case(case, args)
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


def versions() -> dict[str, str]:
    """What is installed of what is timed, and cuDNN's own number."""
    import torch

    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | {"cuDNN": str(torch.backends.cudnn.version())}


def time_case(case: Case, args: argparse.Namespace) -> dict[str, Any]:
    """Everyone's result compared, then all who are right timed in turn."""
    import torch

    from .peers import OF_GROUP
    from .problem import Problem

    problem = Problem(case)
    launches, errors, refused = {}, {}, {}
    for peer in OF_GROUP[case.group]:
        try:
            for entry in peer(problem):
                try:
                    error = problem.error(entry.seen(entry.run()))
                    torch.cuda.synchronize()
                except Exception as why:  # A peer may raise anything.
                    refused[entry.who] = reason(why)
                    continue
                if not error < TOLERANCE:
                    refused[entry.who] = f"wrong: a relative error of {error:.1e}"
                    continue
                launches[entry.who], errors[entry.who] = entry.run, error
        except Exception as why:
            refused[peer.__name__] = reason(why)
    limits = Limits(warmup_s=0.3, time_s=args.time_s, least=15)
    timed = Turns(Cuda(), launches).run(limits) if launches else {}
    mine = timed["bsr"] if "bsr" in timed else None
    peers = []
    for who, samples in timed.items():
        us = median(samples.counted())
        entry = {
            "who": who,
            "ratio": paired(samples.by_round(), mine.by_round()) if mine else None,
            "time_us": summary(samples.counted()),
            "host_bound": samples.host_bound,
            "tflops": tflops(case.flops, us),
            "gb_s": case.bytes / us / 1e3,
            "of_roof": case.bytes / us / 1e3 / args.read_roof if args.read_roof else None,
            "relative_error": errors[who],
        }
        peers.append(entry)
    others = [one for one in peers if not one["who"].startswith("bsr")]
    best = min(others, key=lambda one: one["time_us"]["median"], default=None)
    of_case = {"flops": case.flops, "bytes": case.bytes, "peers": peers, "refused": refused}
    return {"name": case.name, **of_case, "best": best and {key: best[key] for key in ("who", "ratio")}}


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
        rates = f"{one['tflops']:8.1f} {one['gb_s']:7.0f} {roof} {one['relative_error']:7.1e}"
        lines.append(f"{ratio} {times} {rates}  {one['who']}{late}")
    lines += [f"    - {who}: {why}" for who, why in entry["refused"].items()]
    return "\n".join(lines)
