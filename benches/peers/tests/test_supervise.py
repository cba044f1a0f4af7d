"""Workers that crash, hang and fail, and what is left of a row; `bsr` as a script."""

import os
import stat
import time
import unittest
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from .. import ours, supervise
from ..peer import DENSE
from ..rows import Row, choose
from ..supervise import Gone, Workers
from ..worker import Job

ROW = Row("row", "dsd", 256, 256, 256, (16, 16), "random:0.5", ("good", "bad"))


def fake(connection: Connection) -> None:
    """A worker with the peers a, b and c. The row's pattern says what goes wrong, and with whom."""
    try:
        while True:
            job: Job = connection.recv()
            what, _, who = job.row.pattern.partition(":")
            send = connection.send
            ready = []
            for peer in (DENSE, "a", "b", "c"):
                if peer in job.without:
                    continue
                send({"at": "preparing", "peer": peer})
                if peer == who and what == "crash":
                    os._exit(9)
                if peer == who and what == "hang":
                    time.sleep(600)
                if peer == who and what == "lost":
                    send({"at": "lost", "reason": "illegal memory access"})
                    os._exit(3)
                if peer == who and what == "refuse":
                    send({"at": "refused", "peer": peer, "reason": "square only"})
                    continue
                if peer != DENSE:
                    send({"at": "ready", "peer": peer, "variant": "v", "tried": 2})
                    ready.append(peer)
            send({"at": "timing", "peers": ready})
            if what == "die" and who in ready:
                os._exit(11)
            if what == "fail":
                send({"at": "failed", "reason": "out of memory"})
                continue
            send({"at": "done", "results": {peer: {"us": [1.0]} for peer in ready}, "nnzb": 5})
    except EOFError:
        return


def ends(connection: Connection) -> None:
    """A worker that cannot be."""
    del connection
    os._exit(4)


def job(pattern: str) -> Job:
    """With half a second for a peer."""
    return Job(replace(ROW, pattern=pattern), (), False, 0.5, 1.0)


class SuperviseTest(unittest.TestCase):
    """The others always keep their times."""

    def time(self, pattern: str) -> Any:
        """The outcome."""
        workers = Workers(fake)
        self.addCleanup(workers.end)
        return workers.time(job(pattern))

    def test_all_is_well(self) -> None:
        """And the process serves the next row."""
        workers = Workers(fake)
        self.addCleanup(workers.end)
        for _ in range(2):
            outcome = workers.time(job("well"))
            self.assertEqual((set(outcome.results), outcome.reasons, outcome.facts), ({"a", "b", "c"}, {}, {"nnzb": 5}))
        self.assertEqual(outcome.variants["a"], "v (of 2 tried)")

    def test_a_refusal(self) -> None:
        """Is kept in its words."""
        outcome = self.time("refuse:b")
        self.assertEqual((set(outcome.results), outcome.reasons), ({"a", "c"}, {"b": "square only"}))

    def test_a_crash_while_preparing(self) -> None:
        """Is the peer's that was being prepared, whether the process told or not."""
        for what, reason in (("crash", "code 9"), ("lost", "illegal memory access")):
            outcome = self.time(f"{what}:b")
            self.assertEqual(set(outcome.results), {"a", "c"})
            self.assertIn(reason, outcome.reasons["b"])

    def test_a_hang(self) -> None:
        """Is ended."""
        with mock.patch.object(supervise, "SLACK_S", 3.0):
            outcome = self.time("hang:c")
        self.assertEqual(set(outcome.results), {"a", "b"})
        self.assertIn("hung", outcome.reasons["c"])

    def test_a_crash_while_timing(self) -> None:
        """Each peer is timed alone, and the one that crashes again is found."""
        outcome = self.time("die:b")
        self.assertEqual(set(outcome.results), {"a", "c"})
        self.assertIn("code 11", outcome.reasons["b"])

    def test_the_dense_library_crashes(self) -> None:
        """No row without it."""
        outcome = self.time(f"crash:{DENSE}")
        self.assertIn("code 9", outcome.failed)
        self.assertEqual(outcome.results, {})

    def test_a_row_that_fails(self) -> None:
        """Says why."""
        self.assertEqual(self.time("fail").failed, "out of memory")

    def test_a_worker_that_never_starts(self) -> None:
        """Is told by its exit code."""
        workers = Workers(ends)
        with self.assertRaisesRegex(Gone, "code 4"):
            workers.machine()


BSR = """#!/bin/sh
if [ "$1" = plan ]; then
    [ "$2" = bad ] && { echo 'error: bad is no spec' >&2; exit 2; }
    exit 0
fi
while [ $# -gt 0 ]; do
    [ "$1" = --json ] && json=$2
    [ "$1" = --matrix ] && matrix=$2
    shift
done
[ -s "$matrix" ] || { echo 'error: no matrix' >&2; exit 2; }
%s
"""


class OursTest(unittest.TestCase):
    """`bsr` in a process of its own."""

    def run_with(self, body: str, row: Row = ROW) -> ours.Ours:
        """With a script in its place."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "bsr"
            path.write_text(BSR % body)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            return ours.time_row(path, row, 1.0)

    def test_records_and_refusals(self) -> None:
        """Of the specs that can be planned, and of those that cannot."""
        flops = ROW.executed_flops(128)
        record = f'{{"spec": "good", "problem": {{"nnzb": 128}}, "executed_flops": {flops}, "ratio": 0.9}}'
        mine = self.run_with(f"echo '{record}' > $json")
        self.assertEqual(([one["ratio"] for one in mine.records], mine.refused), ([0.9], {"bad": "bad is no spec"}))
        self.assertTrue(mine.shared)

    def test_a_wrong_result(self) -> None:
        """Is no record, and its reason is kept."""
        mine = self.run_with("echo 'note' >&2; echo 'error: relative error 0.3' >&2; exit 1")
        self.assertEqual((mine.records, mine.refused["good"]), ([], "relative error 0.3"))

    def test_other_work(self) -> None:
        """Is not compared."""
        record = '{"spec": "good", "problem": {"nnzb": 128}, "executed_flops": 1}'
        mine = self.run_with(f"echo '{record}' > $json")
        self.assertEqual(mine.records, [])
        self.assertIn("counts 1 operations", mine.refused["good"])

    def test_no_binary(self) -> None:
        """Is a reason, not an end."""
        mine = ours.time_row(Path("/nowhere/bsr"), ROW, 1.0)
        self.assertEqual(set(mine.refused), {"good", "bad"})

    def test_the_flags(self) -> None:
        """A matrix where it can be shared, else the class of its pattern."""
        sdd = choose(["sdd-128x128-0.25"])[0]
        flags = ours.problem(sdd, Path("/tmp"), shared=False)
        expected = "--m 8192 --n 8192 --k 4096 --pattern random:0.25 --seed 0"
        self.assertEqual(flags, expected.split())


if __name__ == "__main__":
    unittest.main()
