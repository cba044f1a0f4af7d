"""A layer with a mixture of experts, whose pattern is made on the GPU at every step: ``python examples/mixture_of_experts.py``.

A router sends each token to one of the experts, two-layer networks. Tokens are sorted by expert and padded to blocks, and the
hidden layer of all experts is one block-sparse matrix: a block of tokens has the blocks of its expert's columns, as in MegaBlocks
(Gale et al., MLSys 2023). Where these are depends on the router; a :class:`bsr_gemm.DevicePattern` has them as a mask on the
device, which the host never reads. Results and gradients are held against a loop over experts, then the layer is trained to do what
each of several random matrices does to its own tokens. Runs on a CPU, and on a GPU where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

import bsr_gemm as bsr

EXPERTS, WIDTH, HIDDEN = 4, 32, 64


class Experts(nn.Module):
    """``relu(x W1) W2`` with the W1 and W2 of each token's expert, times the weight that the router gives it."""

    def __init__(self, tokens: int, block: int) -> None:
        super().__init__()
        self.block, self.tokens = block, tokens
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        # Columns of the first and rows of the second belong to experts, one after the other.
        self.first = nn.Parameter(torch.randn(WIDTH, EXPERTS * HIDDEN) * WIDTH**-0.5)
        self.second = nn.Parameter(torch.randn(EXPERTS * HIDDEN, WIDTH) * HIDDEN**-0.5)
        # Blocks of tokens at most: each expert may have one that is not full.
        self.rows = tokens // block + EXPERTS
        mask = torch.zeros(self.rows, EXPERTS * HIDDEN // block, dtype=torch.bool)
        self.register_buffer("mask", mask, persistent=False)
        self.pattern: bsr.DevicePattern | None = None

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The expert of each token, its weight, and the row of the sorted tokens that it has; the pattern is made for them."""
        weight, expert = self.router(x).float().softmax(1).max(1)
        chosen = nn.functional.one_hot(expert, EXPERTS)
        rank = (chosen.cumsum(0) - 1).gather(1, expert[:, None])[:, 0]
        blocks = (chosen.sum(0) + self.block - 1) // self.block
        ends = blocks.cumsum(0)
        row = (ends - blocks)[expert] * self.block + rank
        # The expert of each block of rows; beyond the last one none.
        of_rows = torch.searchsorted(ends, torch.arange(self.rows, device=x.device), right=True)
        of_columns = torch.arange(self.mask.shape[1], device=x.device) // (HIDDEN // self.block)
        self.mask.copy_(of_rows[:, None] == of_columns[None, :])
        if self.pattern is None:
            shape, capacity = (self.rows * self.block, EXPERTS * HIDDEN), self.rows * HIDDEN // self.block
            self.pattern = bsr.DevicePattern.from_mask(self.mask, shape, (self.block, self.block), capacity)
        self.pattern.changed()
        return expert, weight, row

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, weight, row = self.route(x)
        sorted_x = x.new_zeros(self.rows * self.block, WIDTH).index_copy(0, row, x)
        hidden = bsr.sddmm(sorted_x, self.first, self.pattern)
        y = hidden.with_values(torch.relu(hidden.values)) @ self.second
        return y[row] * weight[:, None].to(x.dtype)

    def one_by_one(self, x: torch.Tensor) -> torch.Tensor:
        """The same by a loop over experts."""
        expert, weight, _ = self.route(x)
        y = torch.zeros_like(x)
        for of, (first, second) in enumerate(zip(self.first.chunk(EXPERTS, 1), self.second.chunk(EXPERTS, 0))):
            y = torch.where((expert == of)[:, None], torch.relu(x @ first) @ second, y)
        return y * weight[:, None].to(x.dtype)


def compared(layer: Experts, x: torch.Tensor) -> float:
    """The largest difference to the loop, of results and gradients, as a fraction of the largest element."""
    found = []
    for forward in (layer, layer.one_by_one):
        given = x.clone().requires_grad_()
        y = forward(given)
        found.append([y.detach(), *torch.autograd.grad(y.float().square().sum(), [given, *layer.parameters()])])
    pairs = zip(*found, strict=True)
    return max(float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs)


def train(
    tokens: int = 256, block: int = 16, steps: int = 150, report: Callable[[str], None] = print
) -> dict[str, float]:
    """The difference to a loop over experts, the first and the last loss, and the share of the tokens of the busiest expert."""
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    block = 64 if device == "cuda" else block
    centres = 2.0 * torch.randn(EXPERTS, WIDTH, device=device)
    tasks = torch.randn(EXPERTS, WIDTH, WIDTH, device=device) * WIDTH**-0.5
    layer = Experts(tokens, block).to(device, dtype)
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    losses, difference, busiest = [], 0.0, 0.0
    for step in range(steps + 1):
        kind = torch.randint(EXPERTS, (tokens,), device=device)
        x = centres[kind] + torch.randn(tokens, WIDTH, device=device)
        target = torch.einsum("tw,twv->tv", x, tasks[kind])
        if step % 50 == 0:
            difference = max(difference, compared(layer, x.to(dtype)))
        loss = nn.functional.mse_loss(layer(x.to(dtype)).float(), target)
        # Experts share the tokens (Fedus et al., Switch Transformers, 2022, section 2.2).
        probabilities = layer.router(x.to(dtype)).float().softmax(1)
        shares = nn.functional.one_hot(probabilities.argmax(1), EXPERTS).float().mean(0)
        optimizer.zero_grad()
        (loss + 0.1 * EXPERTS * (shares * probabilities.mean(0)).sum()).backward()
        optimizer.step()
        losses.append(loss.item())
        busiest = float(shares.max())
        if step % 50 == 0:
            report(f"step {step:3d}  loss {losses[-1]:.3f}  tokens of the busiest expert {100 * busiest:.0f} %")
    layer.pattern.check()
    report(f"{layer.pattern!r}: difference to a loop over experts {difference:.1e}")
    return {"difference": difference, "first": losses[0], "last": losses[-1], "busiest": busiest}


def right(found: dict[str, float]) -> bool:
    """Whether results and gradients are those of the loop, and the experts have learnt."""
    most = 0.05 if torch.cuda.is_available() else 1e-4
    return found["difference"] < most and found["last"] < found["first"] / 2 and found["busiest"] < 1.0


if __name__ == "__main__":
    sys.exit(0 if right(train()) else "the result is wrong")
