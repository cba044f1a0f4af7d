"""Patterns, work, statistics and the table: numpy alone."""

import math
import unittest
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .. import pattern, report, rows, stats
from ..ours import Ours
from ..peer import DENSE, DENSE_ALL, SEMI
from ..supervise import Outcome


class PatternTest(unittest.TestCase):
    """What is drawn is of its class."""

    def test_random_stores_an_exact_number(self) -> None:
        """round(D * all), each once, in order, of both extremes too."""
        for density, count in ((0.25, 64), (0.05, 13), (0.0, 0), (1.0, 256)):
            drawn = pattern.draw(256, 512, (16, 32), f"random:{density}", 1)
            self.assertEqual((drawn.nnzb, drawn.row_ptr[0], drawn.row_ptr[-1]), (count, 0, count))
            for start, end in zip(drawn.row_ptr, drawn.row_ptr[1:], strict=False):
                row = drawn.col_idx[start:end]
                self.assertTrue(np.all(np.diff(row) > 0) and np.all((row >= 0) & (row < 16)))

    def test_random_rows_vary_and_columns_are_uniform(self) -> None:
        """Against the hypergeometric variance of a row's length, and in the mean of the columns."""
        drawn = pattern.draw(8192, 8192, (32, 32), "random:0.25", 5)
        lengths = drawn.lengths
        self.assertAlmostEqual(lengths.mean(), 64.0)
        self.assertTrue(0.7 < lengths.var() / (256 * 0.25 * 0.75) < 1.4, lengths.var())
        self.assertAlmostEqual(drawn.col_idx.mean(), 127.5, delta=3)

    def test_topk_stores_as_many_in_every_row(self) -> None:
        """At distinct columns."""
        drawn = pattern.draw(8192, 8288, (512, 112), "topk:16", 0)
        self.assertTrue(np.all(drawn.lengths == 16) and drawn.nnzb == 256)
        self.assertTrue(all(len(set(row)) == 16 for row in drawn.col_idx.reshape(16, 16)))

    def test_a_window_follows_the_diagonal(self) -> None:
        """Adjacent blocks whose middle is within half a block of it, or that touch an edge."""
        for shape, block in (((64, 64), (4, 4)), ((64, 256), (4, 8)), ((256, 64), (16, 4)), ((30, 280), (30, 7))):
            drawn = pattern.draw(*shape, block, "window:0.2", 0)
            width = max(1, int(0.2 * drawn.block_cols + 0.5))
            self.assertTrue(np.all(drawn.lengths == width))
            for row, columns in enumerate(drawn.col_idx.reshape(-1, width)):
                self.assertTrue(np.all(np.diff(columns) == 1))
                middle = (columns[0] + width / 2) * block[1]
                diagonal = (row + 0.5) * block[0] * shape[1] / shape[0]
                at_edge = columns[0] == 0 or columns[-1] == drawn.block_cols - 1
                self.assertTrue(at_edge or abs(middle - diagonal) <= block[1] / 2, (shape, row, middle, diagonal))
        for words, count in (("window:0", 0), ("window:0.001", 4), ("window:1", 16)):
            self.assertEqual(pattern.draw(64, 64, (16, 16), words, 0).nnzb, count)

    def test_rows_of_a_power_law_fall_as_one_over_their_rank(self) -> None:
        """Exactly as many blocks as the density says, rows in another order than their lengths."""
        drawn = pattern.draw(8192, 8192, (32, 32), "powerlaw:0.05", 0)
        self.assertEqual(drawn.nnzb, 3277)
        ordered = np.sort(drawn.lengths)[::-1]
        self.assertFalse(np.array_equal(ordered, drawn.lengths))
        full = int((ordered == 256).sum())
        self.assertGreater(full, 0)
        exact = (full + 1) * ordered[full] / np.arange(full + 1, 257)
        self.assertTrue(np.all(np.abs(ordered[full:] - exact) <= 1 + 0.05 * exact))
        for start, end in zip(drawn.row_ptr, drawn.row_ptr[1:], strict=False):
            self.assertTrue(np.all(np.diff(drawn.col_idx[start:end]) > 0))

    def test_lengths_of_a_power_law_add_up(self) -> None:
        """For every number of blocks, none longer than a row, the longest first."""
        for rows_, cols in ((1, 1), (1, 9), (9, 1), (7, 5), (16, 16)):
            for count in range(rows_ * cols + 1):
                lengths = pattern.power_law_lengths(rows_, cols, count)
                self.assertEqual(lengths.sum(), count)
                self.assertTrue(np.all(np.diff(lengths) <= 0) and lengths[0] <= cols, lengths)

    def test_the_same_seed_draws_the_same(self) -> None:
        """Pattern and values; another seed, another."""
        one, same, other = (pattern.draw(512, 512, (32, 32), "random:0.5", seed) for seed in (7, 7, 8))
        self.assertTrue(np.array_equal(one.col_idx, same.col_idx) and not np.array_equal(one.col_idx, other.col_idx))
        self.assertTrue(np.array_equal(one.values(7), same.values(7)))
        self.assertAlmostEqual(float(one.values(7).astype(np.float64).std()), 1.0, delta=0.02)

    def test_what_cannot_be_drawn_says_why(self) -> None:
        """In words of the pattern."""
        for words, reason in (
            ("random:1.5", "density"),
            ("window:-0.1", "density"),
            ("powerlaw:2", "density"),
            ("topk:99", "16 blocks"),
            ("causal", "random:D, topk:T, window:W, powerlaw:D"),
        ):
            with self.assertRaisesRegex(ValueError, reason):
                pattern.draw(256, 512, (16, 32), words, 0)
        with self.assertRaisesRegex(ValueError, "do not divide"):
            pattern.draw(100, 512, (16, 32), "topk:1", 0)

    def test_the_transposed_index(self) -> None:
        """Finds every block once, by columns, rows in order."""
        drawn = pattern.draw(320, 512, (16, 32), "random:0.3", 3)
        ptr, idx, where = drawn.transposed()
        self.assertEqual(sorted(where), list(range(drawn.nnzb)))
        for column in range(drawn.block_cols):
            at = slice(ptr[column], ptr[column + 1])
            self.assertTrue(np.all(drawn.col_idx[where[at]] == column))
            self.assertTrue(np.array_equal(idx[at], drawn.row_of[where[at]]) and np.all(np.diff(idx[at]) > 0))

    def test_blocked_ell(self) -> None:
        """Every block has a slot of its own, in its row; the rest is -1."""
        drawn = pattern.draw(320, 512, (16, 32), "random:0.3", 3)
        padded = pattern.ell(drawn)
        self.assertEqual(padded.width, drawn.lengths.max())
        self.assertEqual(len(set(padded.slots)), drawn.nnzb)
        self.assertTrue(np.array_equal(padded.slots // padded.width, drawn.row_of))
        self.assertTrue(np.array_equal(padded.columns.ravel()[padded.slots], drawn.col_idx))
        self.assertEqual(int((padded.columns == -1).sum()), padded.columns.size - drawn.nnzb)

    def test_the_file_is_what_scipy_writes(self) -> None:
        """Member by member, but for the values' type: f16, which scipy does not have."""
        drawn = pattern.draw(64, 96, (16, 32), "random:0.5", 3)
        members = {"format", "shape", "indptr", "indices", "data"}
        with TemporaryDirectory() as folder:
            path, theirs = Path(folder) / "a.npz", Path(folder) / "b.npz"
            drawn.save(path, drawn.values(3))
            with zipfile.ZipFile(path) as archive:
                self.assertEqual({name.removesuffix(".npy") for name in archive.namelist()}, members)
                self.assertTrue(all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist()))
            ours = np.load(path)
            self.assertEqual((ours["format"].item(), ours["data"].dtype), (b"bsr", np.float16))
            try:
                from scipy.sparse import bsr_matrix, save_npz
            except ImportError:
                return
            arrays = (drawn.values(3).astype(np.float32), drawn.col_idx, drawn.row_ptr)
            save_npz(theirs, bsr_matrix(arrays, shape=(64, 96)))
            written = np.load(theirs)
            for name in members:
                self.assertTrue(np.array_equal(ours[name], written[name]), name)


class RowsTest(unittest.TestCase):
    """The table of work."""

    def test_names_are_unique_and_chosen_by_pattern(self) -> None:
        """A wrong one is told with the right ones."""
        names = [row.name for row in (*rows.ROWS, *rows.SHAPES)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(rows.choose([]), list(rows.ROWS))
        self.assertEqual(rows.choose(["blocks-*"]), list(rows.SHAPES))
        self.assertEqual(
            [row.name for row in rows.choose(["sdd-*"])], [name for name in names if name.startswith("sdd")]
        )
        with self.assertRaisesRegex(ValueError, "flagship"):
            rows.choose(["flagshp"])

    def test_every_row_can_be_drawn(self) -> None:
        """Its blocks divide it."""
        for row in (*rows.ROWS, *rows.SHAPES):
            drawn = pattern.draw(*row.sparse_shape, row.block, row.pattern, row.seed)
            self.assertGreater(drawn.nnzb, 0)

    def test_work_by_hand(self) -> None:
        """Executed operations, and the dense product of as many."""
        flagship = rows.choose(["flagship"])[0]
        self.assertEqual(flagship.executed_flops(256), 240_518_168_576)
        self.assertEqual(flagship.equal_dense(256), (8192, 8192, 1792))
        sdd = rows.choose(["sdd-128x128-0.25"])[0]
        self.assertEqual(sdd.executed_flops(1024), 2 * 1024 * 128 * 128 * 4096)
        self.assertEqual(sdd.equal_dense(1024), (8192, 2048, 4096))
        dds = rows.choose(["dds-*"])[0]
        self.assertEqual(dds.equal_dense(1024), (8192, 8192, 2048))

    def test_fp8_has_sides_that_the_dense_library_takes(self) -> None:
        """Multiples of 16, of all of the product and of the one of equal work."""
        few = [row for row in rows.ROWS if row.dtype == "e4m3" and row.n == 16]
        self.assertTrue(few)
        for row in rows.ROWS:
            if row.dtype == "e4m3":
                nnzb = pattern.draw(*row.sparse_shape, row.block, row.pattern, row.seed).nnzb
                sides = (row.m, row.n, row.k, *row.equal_dense(nnzb))
                self.assertEqual([side % 16 for side in sides], [0] * 6, row.name)

    def test_equal_work_is_equal(self) -> None:
        """To half a unit of k, in every row; of few columns none is added."""
        for row in rows.ROWS:
            nnzb = pattern.draw(*row.sparse_shape, row.block, row.pattern, row.seed).nnzb
            m, n, k = row.equal_dense(nnzb)
            unit = 16 if row.dtype == "e4m3" else 8
            shrunk = n if row.op == "sdd" else k
            self.assertEqual(shrunk % unit, 0)
            self.assertEqual((m, k if row.op == "sdd" else n), (row.m, row.k if row.op == "sdd" else row.n))
            self.assertLessEqual(abs(2 * m * n * k / row.executed_flops(nnzb) - 1), unit / 2 / shrunk, row.name)


class StatsTest(unittest.TestCase):
    """Against numbers worked out by hand."""

    def test_quantiles(self) -> None:
        """Linear between ranks."""
        self.assertEqual(stats.summary([5.0, 1.0, 4.0, 2.0, 3.0, 100.0])["median"], 3.5)
        self.assertEqual(stats.quantile([1.0, 2.0, 3.0, 4.0, 5.0, 100.0], 0.1), 1.5)
        self.assertTrue(math.isnan(stats.median([])))

    def test_the_interval(self) -> None:
        """Narrows with samples, ignores one outlier, is infinite of five."""
        self.assertEqual(stats.relative_ci([1.0] * 5), math.inf)
        self.assertEqual(stats.relative_ci([100.0] * 39 + [9000.0]), 0.0)
        few, many = ([100 + (i * 37 % n) / n for i in range(n)] for n in (20, 2000))
        self.assertLess(stats.relative_ci(many), stats.relative_ci(few) / 5)

    def test_the_paired_ratio_cancels_drift(self) -> None:
        """And skips rounds in which one has no time."""
        drift = [1 + 0.02 * i for i in range(40)]
        ours: list[float | None] = [90 * d for d in drift]
        ours[3] = None
        self.assertAlmostEqual(stats.paired(ours, [100 * d for d in drift]) or 0, 0.9)
        self.assertIsNone(stats.paired([None], [1.0]))

    def test_teraflops(self) -> None:
        """A million operations a microsecond is one."""
        self.assertEqual(stats.tflops(2_000_000_000, 2.0), 1000.0)
        self.assertEqual(stats.tflops(1, 0.0), 0.0)


class ReportTest(unittest.TestCase):
    """From samples to the table."""

    def entry(self) -> dict:  # type: ignore[type-arg]
        """A row with a peer of each kind."""
        row = rows.choose(["128x128-0.25"])[0]
        flops = row.executed_flops(1024)
        result = {"dense_us": [400.0] * 20, "host_bound": False, "error": 2e-4, "right": True}
        outcome = Outcome(
            results={
                DENSE: {"us": [400.0] * 20, "error": 2e-4, "right": True},
                "fast": {"us": [500.0] * 20, **result},
                "slow": {"us": [800.0] * 10 + [None] * 10, **result},
                "late": {"us": [1.0] * 20, **result, "right": False, "error": math.inf},
                DENSE_ALL: {"us": [1600.0] * 20, **result},
                SEMI: {"us": [320.0] * 20, **result},
            },
            reasons={
                "odd": "square blocks only",
                "bad": "wrong result, relative error 3.0e-01",
                "boom": "crash: code -11",
            },
            variants={"fast": "128x256"},
            facts={"nnzb": 1024, "flops": flops, "dense_flops": flops, "dense": "8192 x 8192 x 2048"},
        )
        record = {"spec": "bm = 128", "ratio": 1.0, "tflops": 640.0, "relative_error": 2e-4, "dense": {"tflops": 640.0}}
        record["time_us"] = {"median": 430.0, "p10": 429.0, "p90": 433.0}
        return report.record(row, outcome, Ours([record], {"bm = 7": "no"}, True))

    def test_ratios(self) -> None:
        """To the dense library; the best peer is right, and keeps the stored blocks alone, though others are faster."""
        entry = self.entry()
        ratios = {peer["name"]: peer["ratio"] for peer in entry["peers"] if peer["status"] == "timed"}
        self.assertEqual(ratios, {"fast": 0.8, "slow": 0.5, DENSE_ALL: 0.25, SEMI: 1.25})
        self.assertEqual(entry["best_peer"]["name"], "fast")
        self.assertEqual(entry["ours_over_best_peer"], 1.25)
        self.assertEqual(entry["l2"], "clean")
        status = {peer["name"]: peer["status"] for peer in entry["peers"]}
        self.assertEqual(
            [status[name] for name in ("odd", "bad", "boom", "late")], ["refused", "wrong", "crashed", "wrong"]
        )

    def test_the_table(self) -> None:
        """Dense first, then ours, then peers by speed; nothing wrong has a time."""
        entry = self.entry()
        who = [line[6] for line in report.lines(entry)]
        self.assertEqual(who[:7], [DENSE, "bsr", "bsr", SEMI, "fast", "slow", DENSE_ALL])
        wrong = next(line for line in report.lines(entry) if line[6] == "late")
        self.assertEqual(set(wrong[:6]), {"-"})
        lines = report.row_text(rows.choose(["128x128-0.25"])[0], entry).splitlines()
        self.assertEqual(len({len(line) for line in lines if line.startswith("|")}), 1)
        overview = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.overview([entry]).splitlines()]
        self.assertEqual(overview[0][-2:], [DENSE_ALL, SEMI])
        self.assertEqual(overview[2], ["128x128-0.25", "1.000", "0.800 (550)", "fast", "1.250", "0.250", "1.250"])


if __name__ == "__main__":
    unittest.main()
