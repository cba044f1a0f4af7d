"""The tensors of a row, and what some of its results must be."""

from __future__ import annotations

import functools

import torch

from .cases import Case

HEADS, ROWS = 4, 16
"""Of how many heads and of how many queries of each the result is computed in f64."""
PAGE = 64
"""Keys of a page."""


class Problem:
    """Tensors of problems x heads x rows x columns in bf16, and sinks of heads in f32."""

    tolerance = 1.5e-2

    def __init__(self, case: Case, device: str = "cuda") -> None:
        torch.manual_seed(0)
        self.case, self.device = case, device
        depth, width = case.columns

        def drawn(heads: int, rows: int, columns: int) -> torch.Tensor:
            return torch.randn(case.problems, heads, rows, columns, device=device, dtype=torch.bfloat16)

        self.q = drawn(case.heads, case.queries, depth)
        self.k = drawn(case.key_heads, case.keys, depth)
        self.v = drawn(case.key_heads, case.keys, width)
        self.scale = depth**-0.5
        self.sinks = torch.randn(case.heads, device=device) if case.sinks else None
        count = case.problems * case.heads
        self.of_heads = sorted({round(at * (count - 1) / max(1, HEADS - 1)) for at in range(HEADS)})
        rows = [0, case.queries - 1, *torch.randint(case.queries, (ROWS - 2,)).tolist()]
        self.rows = torch.tensor(sorted(set(rows)), device=device)
        self.expected = torch.stack([self._expected(at) for at in self.of_heads])

    @functools.cached_property
    def pages(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """K and V as pages x keys of a page x heads x columns, and the table of the pages of each problem."""
        each = self.case.keys // PAGE
        table = torch.arange(self.case.problems * each, dtype=torch.int32, device=self.device)
        k, v = (x.transpose(1, 2).reshape(-1, PAGE, x.shape[1], x.shape[3]) for x in (self.k, self.v))
        return k, v, table.view(-1, each)

    def _expected(self, at: int) -> torch.Tensor:
        """The chosen queries of a head, in f64."""
        case = self.case
        problem, head = divmod(at, case.heads)
        key_head = head * case.key_heads // case.heads
        q, k, v = self.q[problem, head][self.rows], self.k[problem, key_head], self.v[problem, key_head]
        scores = q.double() @ k.double().T * self.scale
        i, j = self.rows[:, None], torch.arange(case.keys, device=self.device)
        if case.mask != "full":
            scores = scores.masked_fill((i < j) | (case.mask == "window") & (i - j >= case.window), -torch.inf)
        if self.sinks is None:
            return scores.softmax(-1) @ v.double()
        sink = self.sinks[head].double().expand(len(self.rows), 1)
        return torch.cat([scores, sink], 1).softmax(-1)[:, :-1] @ v.double()

    def error(self, found: torch.Tensor) -> float:
        """The relative error of a result: problems x heads x queries x columns."""
        chosen = torch.stack([found[divmod(at, self.case.heads)][self.rows] for at in self.of_heads]).double()
        return ((chosen - self.expected).norm() / self.expected.norm()).item()
