"""Sweeps whose shards are measured by the workers of a cluster.

A worker measures one shard with the command `bsr sweep --shard`, and hands over its database again and again while it
measures. Each of these copies is merged into the database of the sweep, to which a record that is there already is not added
again: copies may come twice, late, and in any order. A shard whose worker is lost begins anew from what has been merged.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from . import _command
from ._native import Error

#: How often a shard is given to a worker before the sweep is given up.
TRIES = 4
#: Seconds from one copy of a worker's database to the next.
INTERVAL = 1.0
#: Shards for each worker: the fewer points a shard has, the less is left to one worker at the end.
SHARDS = 4


@dataclass(frozen=True)
class Job:
    """A shard of a sweep, as a worker needs it."""

    command: tuple[str, ...]
    """The words of `bsr`, without those of files."""
    matrix: tuple[str, bytes]
    """The name and the content of the file with the matrix."""
    shard: tuple[int, int]
    """Which of how many, from 1."""
    folder: str = field(default_factory=lambda: str(Path(tempfile.gettempdir(), f"bsr-gemm-{os.getuid()}").resolve()))
    """Where every worker has the file. A problem is known by the path of its file, which is the same on all nodes."""
    known: bytes | None = None
    """A database with what need not be measured again."""
    tries: int = 1
    """How often it has been given to a worker."""


@dataclass(frozen=True)
class Event:
    """An event of a worker."""

    kind: str
    """``started``, ``measured`` (with a database), ``done`` (with what the command said), or ``lost`` (with the reason)."""
    database: bytes = b""
    words: str = ""
    process: int = 0


class Workers(Protocol):
    """What gives jobs to machines."""

    def submit(self, job: Job) -> Any:
        """Gives a job to a worker; returns its handle."""

    def events(self, handles: Sequence[Any]) -> Iterator[tuple[Any, Event]]:
        """The new events of these jobs' workers; waits a moment for some."""


def measure(job: Job, interval: float = INTERVAL) -> Iterator[Event]:
    """Measures a shard, in a process of a worker."""
    with tempfile.TemporaryDirectory() as folder:
        matrix, database = _shared(Path(job.folder, job.matrix[0]), job.matrix[1]), Path(folder, "shard.db")
        if job.known is not None:
            database.write_bytes(job.known)
        index, count = job.shard
        files = ("--matrix", str(matrix), "--db", str(database), "--shard", f"{index}/{count}")
        words = [sys.executable, "-m", "bsr_gemm", *job.command, *files]
        with open(Path(folder, "words"), "w+") as said:
            child = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, preexec_fn=_end_with_parent)
            try:
                yield Event("started", process=os.getpid())
                before = _records(database)
                while (ended := _wait(child, interval)) is None:
                    if (now := _records(database)) > before:
                        before = now
                        yield Event("measured", _copy(database), process=os.getpid())
            finally:
                child.kill()
                child.wait()
            said.seek(0)
            text = said.read().strip()
        if ended != 0:
            yield Event("lost", words=text.removeprefix("error: ") or f"`bsr sweep` ended with {ended}")
            return
        yield Event("done", _copy(database), text, os.getpid())


def run(
    workers: Workers,
    jobs: Sequence[Job],
    database: Path,
    *,
    tell: Callable[[Job, Event], None] = lambda job, event: None,
) -> str:
    """Has all jobs done, with their results in the database; returns what the last of them said."""
    words = ""
    with _Progress(len(jobs)) as progress:
        handles = {}
        for job in jobs:
            known = database.exists()
            handles[workers.submit(replace(job, known=_copy(database)) if known else job)] = job
        running = dict(handles)
        while running:
            for handle, event in workers.events(list(running)):
                job = handles[handle]
                tell(job, event)
                if event.database:
                    merge(event.database, database)
                if event.kind == "done":
                    words = event.words
                elif event.kind == "lost" and handle in running:
                    again = _again(job, event, database)
                    other = workers.submit(again)
                    handles[other] = running[other] = again
                if event.kind in ("done", "lost"):
                    running.pop(handle, None)
                progress.tell(len(jobs) - len(running), database)
    return words


def _again(job: Job, event: Event, database: Path) -> Job:
    """The job of a worker that was lost, with what is known by now."""
    index, count = job.shard
    if job.tries >= TRIES:
        raise Error(
            f"shard {index} of {count} has failed {job.tries} times, the last time with:\n  {event.words}\n"
            f"  help: what was measured is in {database}; the same call goes on from there"
        )
    known = _copy(database) if database.exists() else None
    return replace(job, known=known, tries=job.tries + 1)


def merge(content: bytes, database: Path) -> None:
    """Adds what a worker's database has to that of the sweep."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, "part.db")
        part.write_bytes(content)
        _command.output("merge", str(database), str(part))


def _copy(database: Path) -> bytes:
    """A database as it is now, while a sweep writes it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.db")
        with (
            contextlib.closing(sqlite3.connect(database)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            # Claims are of processes that measure now: of the copy there are none.
            with contextlib.suppress(sqlite3.OperationalError):
                target.execute("DELETE FROM claims")
            target.commit()
            target.execute("PRAGMA journal_mode = DELETE")
        return copy.read_bytes()


def _records(database: Path) -> int:
    """How many records a database has; none where there is none yet."""
    if not database.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _shared(path: Path, content: bytes) -> Path:
    """A file that the workers of a machine share."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        made = path.with_name(f"{path.name}-{os.getpid()}")
        made.write_bytes(content)
        made.replace(path)
    return path


def _wait(child: subprocess.Popen, seconds: float) -> int | None:
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _end_with_parent() -> None:
    """Has Linux end the command with the worker that started it, so that it holds no GPU afterwards."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class _Progress:
    """A bar on stderr, where a person is watching."""

    WIDTH = 24

    def __init__(self, shards: int) -> None:
        self.shards, self.shown = shards, sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def tell(self, done: int, database: Path) -> None:
        if self.shown:
            print(f"\r\x1b[K{self.line(done, _records(database))}", end="", file=sys.stderr, flush=True)

    def line(self, done: int, records: int) -> str:
        full = self.WIDTH * done // self.shards
        return f"[{'#' * full}{'.' * (self.WIDTH - full)}] {done} of {self.shards} shards, {records} records"


class RayWorkers:
    """The workers of a cluster of Ray: each job is a task with one GPU, or with one CPU."""

    def __init__(self, with_gpu: bool, interval: float = INTERVAL) -> None:
        self.ray = _ray()
        if not self.ray.is_initialized():
            self.ray.init(logging_level="ERROR", log_to_driver=False)
        resources = {"num_gpus": 1} if with_gpu else {"num_cpus": 1}
        # Who is lost is told here, and given what is known: Ray itself would begin from the start.
        self.task = self.ray.remote(num_returns="streaming", max_retries=0, **resources)(measure)
        self.interval = interval
        self.count = int(self.ray.cluster_resources().get("GPU" if with_gpu else "CPU", 0))
        if self.count == 0:
            raise Error(
                "Ray's cluster has no GPU\n  help: `device='sim'` checks kernels on CPUs; `ray status` lists what there is"
            )

    def submit(self, job: Job) -> Any:
        return self.task.remote(job, self.interval)

    def events(self, handles: Sequence[Any]) -> Iterator[tuple[Any, Event]]:
        ready, _ = self.ray.wait(list(handles), num_returns=1, timeout=self.interval)
        for handle in ready:
            try:
                yield handle, self.ray.get(next(handle))
            except StopIteration:
                yield handle, Event("lost", words="the worker ended without a result")
            except (self.ray.exceptions.RayError, OSError) as error:
                yield handle, Event("lost", words=str(error).strip().splitlines()[0])


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise Error("Ray is not installed\n  help: `pip install ray`, or `engine='local'`") from None


def sweep_by_ray(command: Sequence[str], matrix: Path, database: Path, shards: int | None) -> str:
    """A sweep whose shards are tasks of Ray."""
    words = list(command)
    device = words[words.index("--device") + 1]
    workers = RayWorkers(with_gpu=device in ("auto", "gpu"))
    if device == "auto":
        # A task has a GPU: without one it must not predict instead.
        words[words.index("--device") + 1] = "gpu"
    count = shards if shards is not None else min(64, SHARDS * workers.count)
    if count < 1:
        raise Error(f"{count} shards\n  help: give at least 1")
    content = matrix.name, matrix.read_bytes()
    jobs = [Job(tuple(words), content, (index + 1, count)) for index in range(count)]
    started = time.monotonic()
    words_of_last = run(workers, jobs, database)
    seconds = time.monotonic() - started
    records = _records(database)
    told = f"{count} shards on {workers.count} workers in {seconds:.0f} s\n{database}, {records} records"
    return f"{words_of_last}\n{told}"
