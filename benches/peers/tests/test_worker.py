"""A whole row in the worker's hands, on the CPU: Triton interpreted, a clock for a GPU."""

# ruff: noqa: E402
from __future__ import annotations

import time
import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

from .testing import interpret

interpret()

import torch

from .. import case, report, stk_peer, timing, tune, worker
from ..peer import DENSE, Refused, Variant
from ..rows import Row
from ..supervise import Outcome
from ..worker import Job


class HostEvent:
    """A moment of the host."""

    def record(self) -> None:
        """Now."""
        self.at = time.perf_counter()

    def query(self) -> bool:
        """Never early."""
        return False

    def elapsed_time(self, end: HostEvent) -> float:
        """In milliseconds."""
        return (end.at - self.at) * 1e3


class HostGpu:
    """The CPU."""

    def event(self) -> HostEvent:
        """A new one."""
        return HostEvent()

    def flush(self) -> None:
        """Nothing."""

    def busy(self, us: float) -> None:
        """Nothing."""

    def wait(self) -> None:
        """Nothing."""


class Wrong:
    """A peer that is fast and wrong in one way, slower and right in another, and fails in a third."""

    name = "mixed"

    def variants(self, case: case.Case, quick: bool) -> Any:
        """All three."""
        yield Variant("zeros", lambda: case.c.zero_())
        yield Variant("fails", self.fails)
        yield Variant("right", lambda: (case.to_dense().float() @ case.right.float()).half())

    def fails(self) -> torch.Tensor:
        """Always."""
        raise RuntimeError("no kernel\nfor this")


class Hopeless:
    """A peer whose every result is wrong."""

    name = "hopeless"

    def variants(self, case: case.Case, quick: bool) -> Any:
        """One."""
        yield Variant("zeros", lambda: case.c.zero_())


class WorkerTest(unittest.TestCase):
    """What a row's messages and numbers are."""

    def setUp(self) -> None:
        """No CUDA."""
        for patch in (
            mock.patch.object(torch.cuda, "synchronize", lambda: None),
            mock.patch.object(torch.cuda, "empty_cache", lambda: None),
            mock.patch.object(timing, "Cuda", HostGpu),
            mock.patch.object(case.Case.__init__, "__defaults__", ("cpu",)),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.row = Row("row", "dsd", 128, 256, 128, (32, 32), "random:0.5", ())

    def test_a_row(self) -> None:
        """Everyone has a time or a reason; the table is made of it."""
        messages: list[dict[str, Any]] = []
        done = worker.time_row(Job(self.row, ("stk",), True, 5.0, 0.1), messages.append)
        broken = [reason for reason in map(str, messages) if "AssertionError" in reason or "TypeError" in reason]
        self.assertEqual(broken, [])
        names = {peer.name for peer in worker.peers()} - {"stk"}
        refused = {message["peer"]: message["reason"] for message in messages if message["at"] == "refused"}
        self.assertEqual(set(done["results"]) | set(refused), names | {DENSE})
        self.assertTrue({"Triton + TMA", "Triton, gathered", "dense, all of it"} <= set(done["results"]), refused)
        self.assertTrue(all(done["results"][name]["right"] for name in done["results"]))
        self.assertEqual(done["flops"], self.row.executed_flops(done["nnzb"]))
        results = done.pop("results")
        entry = report.record(self.row, Outcome(results, refused, {}, done), None)
        self.assertIsNotNone(entry["best_peer"])
        self.assertIn("Triton + TMA", report.row_text(self.row, entry))

    def test_a_row_of_few_columns(self) -> None:
        """Is what the kernel in parts is for, and is not asked of those that would write beyond C."""
        others = tuple({peer.name for peer in worker.peers()} - {"Triton, split K", stk_peer.peer().name})
        messages: list[dict[str, Any]] = []
        done = worker.time_row(Job(replace(self.row, n=16), others, True, 5.0, 0.1), messages.append)
        self.assertTrue(done["results"]["Triton, split K"]["right"])
        refused = {message["peer"]: message["reason"] for message in messages if message["at"] == "refused"}
        self.assertIn(stk_peer.peer().name, refused)

    def test_a_variant_with_an_error_of_its_own(self) -> None:
        """Is held against that, not against the case's product."""
        made = case.Case(self.row)
        self.assertEqual(tune.check(Variant("zeros", lambda: made.c.zero_()), made), 1.0)
        self.assertEqual(tune.check(Variant("zeros", lambda: made.c.zero_(), lambda _: 0.5), made), 0.5)

    def test_a_wrong_variant_is_not_chosen(self) -> None:
        """However fast; nor one that fails."""
        made = case.Case(self.row)
        chosen = tune.choose(Wrong(), made, HostGpu(), quick=False, budget_s=60)
        self.assertEqual((chosen.variant.words, chosen.tried), ("right", 3))

    def test_a_peer_that_is_wrong_is_refused(self) -> None:
        """With its error, or with the time it had."""
        made = case.Case(self.row)
        with self.assertRaisesRegex(Refused, "wrong result, relative error 1.0e"):
            tune.choose(Hopeless(), made, HostGpu(), quick=False, budget_s=60)
        with self.assertRaisesRegex(Refused, "budget"):
            tune.choose(Wrong(), made, HostGpu(), quick=False, budget_s=0)

    def test_reasons_are_one_line(self) -> None:
        """With the exception's type, unless it is a refusal."""
        self.assertEqual(tune.said(RuntimeError("no kernel\nfor this")), "RuntimeError: no kernel")
        self.assertEqual(tune.said(Refused("square only")), "square only")
        self.assertEqual(len(tune.said(ValueError("x" * 500))), 160)


if __name__ == "__main__":
    unittest.main()
