"""The rows of attention, what their results must be, and what is said of everyone, on the CPU."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"PyTorch is not installed: {missing}") from missing

from ..attention.cases import GROUPS, Case
from ..attention.problem import PAGE, Problem
from ..attention.timed import SUITE
from ..suite import text


def small(mask: str, window: int = 0, sinks: bool = False, queries: int = 130) -> Case:
    """Queries and keys are as many but for full masks."""
    keys = 192 if mask == "full" else queries
    return Case("small", 2, 4, 2, queries, keys, (48, 32), mask, window, sinks)


CASES = [small("full"), small("full", queries=1), small("causal"), small("window", 50), small("window", 50, True)]


def counts(case: Case) -> torch.Tensor:
    """Which pairs count."""
    i, j = torch.arange(case.queries)[:, None], torch.arange(case.keys)
    return (i >= j) & (i - j < (case.window or case.keys)) if case.mask != "full" else i >= -j


def attended(problem: Problem) -> torch.Tensor:
    """The whole result in f64, a sink as a key of its own whose value is nothing."""
    case = problem.case
    q, k, v = (x.double() for x in (problem.q, problem.k, problem.v))
    k, v = (x.repeat_interleave(case.heads // case.key_heads, 1) for x in (k, v))
    scores = (q @ k.mT * problem.scale).masked_fill(~counts(case), -torch.inf)
    if problem.sinks is not None:
        sinks = problem.sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], -1)
        v = torch.cat([v, torch.zeros_like(v[:, :, :1])], 2)
    return scores.softmax(-1) @ v


class Attention(unittest.TestCase):
    def test_pairs_are_those_that_count(self) -> None:
        for case in [*CASES, small("window", 1000)]:
            with self.subTest(case.name):
                self.assertEqual(case.pairs, int(counts(case).sum()))
                self.assertEqual(case.flops, 2 * (48 + 32) * case.pairs * 8)

    def test_a_right_result_has_no_error_and_others_have_one(self) -> None:
        for case in CASES:
            with self.subTest(case.name):
                problem = Problem(case, "cpu")
                right = attended(problem)
                self.assertLess(problem.error(right), 1e-12)
                self.assertGreater(problem.error(right.roll(1, 1)), 0.5)
                self.assertAlmostEqual(problem.error(right * 1.1), 0.1, places=6)

    def test_pages_are_k_and_v(self) -> None:
        problem = Problem(small("full", queries=1), "cpu")
        k, v, table = problem.pages
        for pages, whole in ((k, problem.k), (v, problem.v)):
            self.assertEqual(pages.shape[1], PAGE)
            for at in range(2):
                self.assertTrue(torch.equal(pages[table[at].long()].flatten(0, 1).transpose(0, 1), whole[at]))

    def test_rows_are_chosen_by_group(self) -> None:
        self.assertEqual([case.group for case in SUITE.choose(["d64"], False)], ["d64"] * 4)
        self.assertEqual(len(SUITE.choose([], True)), 2 * len(GROUPS))
        names = [case.name for case in SUITE.choose([], False)]
        self.assertEqual(len(names), len(set(names)))

    def test_a_row_says_who_is_the_fastest_and_who_refuses(self) -> None:
        def peer(who: str, us: float, ratio: float) -> dict:
            times = {"median": us, "p10": us, "p90": us}
            rates = {"tflops": 1.0, "gb_s": 2.0, "of_roof": None, "relative_error": 1e-3}
            return {"who": who, "ratio": ratio, "time_us": times, "host_bound": who == "b", **rates}

        peers = [peer("bsr", 10.0, 1.0), peer("b", 12.0, 1.2)]
        entry = {"name": "row", "peers": peers, "refused": {"c": "Error: no"}, "best": {"who": "b", "ratio": 1.2}}
        lines = text(entry).splitlines()
        self.assertIn("b takes 1.200 times ours", lines[1])
        self.assertTrue(lines[3].endswith("bsr") and lines[4].endswith("b (with time of the host)"))
        self.assertIn("c: Error: no", lines[5])
        self.assertIn("failed: why", text({"name": "row", "failed": "why"}))
