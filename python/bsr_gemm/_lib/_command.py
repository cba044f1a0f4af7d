"""The command ``bsr`` in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from ._native import Error


def output(*args: str) -> str:
    """What ``bsr ARGS`` prints; Error with its words where it fails."""
    done = subprocess.run([sys.executable, "-m", "bsr_gemm", *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("error: ") or f"`bsr {args[0]}` ended with {done.returncode}")
    return done.stdout.rstrip()
