"""Programs in processes of their own that have PyTorch: each is a copy of one which has imported it, and has done nothing else."""

from __future__ import annotations

import functools
import multiprocessing
import os
import runpy
import sys
import tempfile
from pathlib import Path


@functools.cache
def processes() -> multiprocessing.context.BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["torch", "bsr_gemm.nn"])
    return found


def _run(file: str, args: tuple[str, ...], said: str) -> None:
    with open(said, "w") as output:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(output.fileno(), stream.fileno())
    os.chdir(Path(file).parent)
    sys.argv = [file, *args]
    runpy.run_path(file, run_name="__main__")


def run(program: str, *args: str) -> str:
    """Runs a program, which is read from a file as kernels are, and returns what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        file, said = Path(folder, "program.py"), Path(folder, "said")
        file.write_text(program)
        process = processes().Process(target=_run, args=(str(file), args, str(said)))
        process.start()
        process.join()
        words = said.read_text() if said.exists() else ""
    assert process.exitcode == 0, f"{process.exitcode}: {words[-6000:]}"
    return words
