"""The process that has the GPU's context: times one row at a time. It may be lost: whoever started it goes on.

Messages to the parent are dictionaries: {"at": "preparing", "peer": name} before a peer is touched, so that a crash has
a name; {"at": "ready" or "refused", "peer", ...}; {"at": "timing"}; last {"at": "done", ...} or {"at": "lost", ...}.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from .rows import Row

Send = Callable[[dict[str, Any]], None]

MACHINE = "machine"


@dataclass(frozen=True)
class Job:
    """A row, the peers that are left out (they crashed), and how much time there is."""

    row: Row
    without: tuple[str, ...]
    quick: bool
    budget_s: float
    time_s: float


def main(connection: Connection) -> None:
    """Serves jobs, and MACHINE, until the parent hangs up."""
    try:
        while True:
            job = connection.recv()
            if job == MACHINE:
                connection.send(machine_or_why_not())
            else:
                _serve(job, connection.send)
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


def _serve(job: Job, send: Send) -> None:
    from .tune import Fatal, alive, said

    try:
        send({"at": "done", **time_row(job, send)})
    except Fatal as problem:
        send({"at": "lost", "reason": str(problem)})
        os._exit(3)
    except Exception as problem:
        try:
            alive(problem)
        except Fatal:
            send({"at": "lost", "reason": said(problem)})
            os._exit(3)
        send({"at": "failed", "reason": said(problem)})


def time_row(job: Job, send: Send) -> dict[str, Any]:
    """Prepares the peers one by one, then times those that are right in turn with the dense library."""
    import torch

    from . import tune
    from .case import Case
    from .dense import DenseEqual
    from .peer import DENSE, Refused
    from .timing import Cuda, Limits, Turns, glance

    send({"at": "preparing", "peer": DENSE})
    case, gpu = Case(job.row), Cuda()
    dense = DenseEqual(case)
    if not case.is_right(dense.error):
        raise Refused(f"the dense library is wrong: relative error {dense.error:.1e}")
    dense_us = glance(gpu, dense.run)
    chosen: dict[str, tune.Chosen] = {}
    for peer in peers():
        if peer.name in job.without:
            continue
        send({"at": "preparing", "peer": peer.name})
        try:
            found = tune.choose(peer, case, gpu, job.quick, job.budget_s)
        except Refused as refusal:
            send({"at": "refused", "peer": peer.name, "reason": str(refusal)})
            continue
        except tune.Fatal:
            raise
        except Exception as problem:
            tune.alive(problem)
            send({"at": "refused", "peer": peer.name, "reason": tune.said(problem)})
            continue
        chosen[peer.name] = found
        send({"at": "ready", "peer": peer.name, "variant": found.variant.words, "tried": found.tried})

    # What is many times slower would leave the GPU cool for the others: it takes turns with the dense library alone.
    slow = {name for name, found in chosen.items() if found.us > 8 * dense_us}
    results: dict[str, Any] = {}
    for group in (set(chosen) - slow, slow):
        if not group and results:
            continue
        send({"at": "timing", "peers": sorted(group)})
        few = Limits(time_s=job.time_s / 2, least=10, most=10, warmup_s=0.3)
        limits = few if group is slow else Limits(time_s=job.time_s)
        runs = {name: found.variant.run for name, found in chosen.items() if name in group}
        launches = {DENSE: dense.run} | runs
        samples = Turns(gpu, launches).run(limits)
        for name in group:
            error = tune.check(chosen[name].variant, case)
            results[name] = {
                "us": samples[name].by_round(),
                "dense_us": samples[DENSE].by_round(),
                "host_bound": samples[name].host_bound,
                "error": error,
                "right": case.is_right(error),
            }
        if group is not slow:
            results[DENSE] = {"us": samples[DENSE].by_round(), "error": dense.error, "right": True}
    facts = {"nnzb": case.pattern.nnzb, "flops": case.flops, "dense_flops": dense.flops, "dense": dense.words}
    del case, dense, chosen, gpu
    torch.cuda.empty_cache()
    return {"results": results, **facts}


def peers() -> list[Any]:
    """Those that may crash last."""
    from .cusparse_peer import CusparseBsr, CusparseEll
    from .dense import DenseFull
    from .semi_peer import Semi
    from .split_peer import TritonSplitK
    from .stk_peer import peer as stk
    from .torch_bsr import TorchBsr
    from .triton_peer import TritonGather, TritonTma

    triton = [TritonTma(), TritonGather(), TritonSplitK()]
    return [DenseFull(), Semi(), TorchBsr(), *triton, CusparseEll(), CusparseBsr(), stk()]


def machine_or_why_not() -> dict[str, str]:
    """`machine`, or what stands in the way, as {"error": ..}."""
    try:
        return machine()
    except Exception as problem:  # An import or a driver: either ends the run, in one line.
        return {"error": f"{type(problem).__name__}: {str(problem).splitlines()[0]}"}


def driver() -> str:
    """The driver's version."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def machine() -> dict[str, str]:
    """The GPU and the versions of what is timed."""
    import torch
    import triton

    from . import stk_peer
    from .cusparse_peer import library, stream

    def cusparse() -> str:
        try:
            return library().version(stream())
        except Exception as problem:
            return str(problem)

    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver(),
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cusparse": cusparse(),
        "cusparselt": str(torch.backends.cusparselt.version() or "none"),
        "stk": stk_peer.peer().name if stk_peer.INSTALLED else "not installed",
    }
