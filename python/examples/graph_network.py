"""Trains a graph network whose adjacency matrix is block-sparse: ``python examples/graph_network.py``.

The graph is drawn by a stochastic block model: nodes of one community, which are neighbours in the numbering, have many edges,
others few. Only the blocks that have an edge are stored. Two layers ``relu(A X W)`` name the community of a node from noisy
features of its own; the names of few nodes are known. Products and gradients are held against dense ones first. Runs on a CPU, and
on a GPU where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

import bsr_gemm as bsr

COMMUNITIES, FEATURES, HIDDEN, KNOWN = 4, 32, 32, 8


def graph(size: int, block: int, device: str, dtype: torch.dtype) -> tuple[bsr.BsrMatrix, torch.Tensor]:
    """The adjacency matrix of communities of ``size`` nodes with a loop at each node, and the community of each node."""
    labels = torch.arange(COMMUNITIES).repeat_interleave(size)
    inside = labels[:, None] == labels[None, :]
    # Few blocks between communities have edges.
    n = len(labels)
    joined = (torch.rand(n // block, n // block) < 0.1).repeat_interleave(block, 0).repeat_interleave(block, 1)
    edges = torch.rand(n, n) < torch.where(inside, 0.3, joined * 0.05)
    edges = (edges | edges.T | torch.eye(n, dtype=torch.bool)).double()
    # Scaled by the degrees of both nodes (Kipf and Welling, ICLR 2017).
    scale = edges.sum(1).rsqrt()
    dense = (scale[:, None] * edges * scale[None, :]).to(dtype)
    return bsr.from_dense(dense, block=(block, block)).to(device), labels.to(device)


class GraphNetwork(nn.Module):
    """Two layers that each mix the features of neighbours: ``A relu(A X W) W``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, HIDDEN, bias=False)
        self.second = nn.Linear(HIDDEN, COMMUNITIES, bias=False)

    def forward(self, adjacency: bsr.BsrMatrix | torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.second(adjacency @ torch.relu(self.first(adjacency @ x)))


def compared(model: GraphNetwork, adjacency: bsr.BsrMatrix, x: torch.Tensor) -> float:
    """The largest difference to dense products, of results and gradients, as a fraction of the largest element."""
    found = []
    for of in (adjacency, adjacency.to_dense()):
        given = x.clone().requires_grad_()
        y = model(of, given)
        gradients = torch.autograd.grad(y.float().square().sum(), [given, *model.parameters()])
        found.append([y.detach(), *gradients])
    pairs = zip(*found, strict=True)
    return max(float((ours - dense).abs().max() / dense.abs().max()) for ours, dense in pairs)


def train(size: int = 256, block: int = 32, steps: int = 40, report: Callable[[str], None] = print) -> dict[str, float]:
    """The difference to dense products, the first and the last loss, and the accuracy on nodes whose community is unknown."""
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    adjacency, labels = graph(size, block, device, dtype)
    report(f"{adjacency!r}".splitlines()[0])
    centres = torch.randn(COMMUNITIES, FEATURES, device=device)
    x = (0.3 * centres[labels] + torch.randn(len(labels), FEATURES, device=device)).to(dtype)
    known = torch.zeros_like(labels, dtype=torch.bool)
    known[torch.arange(COMMUNITIES * KNOWN, device=device) * (size // KNOWN)] = True
    model = GraphNetwork().to(device, dtype)
    difference = compared(model, adjacency, x)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses, accuracy = [], 0.0
    for step in range(steps + 1):
        y = model(adjacency, x).float()
        loss = nn.functional.cross_entropy(y[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        accuracy = float((y.argmax(1) == labels)[~known].float().mean())
        if step % 10 == 0:
            report(f"step {step:3d}  loss {losses[-1]:.3f}  right of the unknown {100 * accuracy:.1f} %")
    alone = float((x.float() @ centres.T).argmax(1).eq(labels).float().mean())
    report(
        f"difference to dense products {difference:.1e}; by the nearest centre, without neighbours: {100 * alone:.1f} %"
    )
    return {"difference": difference, "first": losses[0], "last": losses[-1], "accuracy": accuracy, "alone": alone}


def right(found: dict[str, float]) -> bool:
    """Whether products are those of the dense matrix, and neighbours tell what a node alone does not."""
    most = 0.05 if torch.cuda.is_available() else 1e-4
    return found["difference"] < most and found["last"] < found["first"] / 4 and found["accuracy"] > found["alone"]


if __name__ == "__main__":
    sys.exit(0 if right(train()) else "the result is wrong")
