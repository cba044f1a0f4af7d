"""The parent's side of the worker: an illegal address loses a CUDA context, and with it one process, not the run."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from . import worker
from .peer import DENSE
from .worker import Job

START_S = 180.0
"""Seconds for a process to start, load its libraries and draw the operands."""
TIMING_S = 120.0
"""Seconds for one group of peers to be timed."""
SLACK_S = 45.0
"""Seconds beyond its budget after which a peer hangs: the budget is looked at between variants alone."""


@dataclass
class Outcome:
    """What is known of a row: of each peer either a result, or the reason why there is none."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None
    """Why the row has no results at all."""


class Gone(Exception):
    """The process ended or hung."""


class Workers:
    """One process at a time, a fresh one after each that was lost."""

    def __init__(self, serve: Callable[[Connection], None] = worker.main) -> None:
        self._serve = serve
        self._context = multiprocessing.get_context("spawn")
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def ask(self, what: object) -> Connection:
        """Sends a job to the process that there is, or to a new one."""
        if self._process is None or not self._process.is_alive() or self._connection is None:
            self.end()
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(target=self._serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._connection.send(what)
        return self._connection

    def answer(self, connection: Connection, seconds: float) -> Any:
        """The next message. Raises Gone, after ending the process, if there is none in time."""
        try:
            if not connection.poll(seconds):
                self.end()
                raise Gone(f"hung: no answer for {seconds:.0f} s")
            return connection.recv()
        except (EOFError, OSError) as problem:
            process = self._process
            if process is not None:
                process.join(5)
            code = process.exitcode if process is not None else None
            self.end()
            raise Gone(f"crash: the process ended with code {code}") from problem

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def machine(self) -> dict[str, str]:
        """What the worker says of the machine. Raises Gone."""
        answer = self.answer(self.ask(worker.MACHINE), START_S)
        assert isinstance(answer, dict)
        if reason := answer.get("error"):
            raise Gone(reason)
        return answer

    def time(self, job: Job, say: Callable[[str], None] = lambda _: None) -> Outcome:
        """Times a row, again without each peer that costs the process its life."""
        outcome = Outcome()
        jobs = [job]
        while jobs:
            jobs += self._attempt(jobs.pop(0), outcome, say)
        return outcome

    def _attempt(self, job: Job, outcome: Outcome, say: Callable[[str], None]) -> list[Job]:
        """One try; the jobs that are left to do."""
        peer, group, patience = "", [], START_S
        seen: list[str] = []
        try:
            connection = self.ask(job)
            while True:
                message = self.answer(connection, patience)
                match message["at"]:
                    case "preparing":
                        peer = message["peer"]
                        patience = START_S if peer == DENSE else job.budget_s + SLACK_S
                        say(peer)
                    case "ready":
                        outcome.variants[message["peer"]] = f"{message['variant']} (of {message['tried']} tried)"
                        seen.append(message["peer"])
                    case "refused":
                        outcome.reasons[message["peer"]] = message["reason"]
                    case "timing":
                        peer, group, patience = "", message["peers"], TIMING_S
                        say("timing")
                    case "lost":
                        raise Gone(f"crash: {message['reason']}")
                    case "failed":
                        outcome.failed = message["reason"]
                        return []
                    case "done":
                        outcome.results |= message.pop("results")
                        outcome.facts |= {key: value for key, value in message.items() if key != "at"}
                        return []
        except Gone as gone:
            self.end()
            reason = str(gone)
        if peer:
            # One peer is to blame. Those refused before will be refused again.
            if peer == DENSE:
                outcome.failed = f"{peer}: {reason}"
                return []
            outcome.reasons[peer] = reason
            return [replace(job, without=(*job.without, peer))]
        if len(group) > 1:
            # One of several: each alone, so that the others keep their times.
            everyone = {*seen, *outcome.reasons, *job.without}
            return [replace(job, without=tuple(sorted(everyone - {name}))) for name in group]
        for name in group:
            outcome.reasons[name] = reason
        if not group:
            outcome.failed = reason
        return [replace(job, without=(*job.without, *group))] if group and set(seen) - set(group) else []


def progress(row: str) -> Callable[[str], None]:
    """Says on a terminal's last line what is going on."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda what: print(f"\r\x1b[K{row}: {what}", end="", file=sys.stderr, flush=True)
