"""Trains a block-sparse network beside a dense one, and lets its pattern move: ``python examples/train_mlp.py``.

The task is a teacher's: a dense network of the same width. Runs on a CPU, and on a GPU where there is one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from bsr_gemm import nn

WIDTH, STEPS, BATCH = 256, 300, 256


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(32, WIDTH),
        torch.nn.GELU("tanh"),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.GELU("tanh"),
        torch.nn.Linear(WIDTH, 8),
    )


def train(steps: int = STEPS, every: int = 50, report: Callable[[str], None] = print) -> tuple[dict, list]:
    """The losses of each model, and the patterns of the block-sparse layer each time that it moved."""
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    teacher = network().to(device)
    dense = network()
    sparse = nn.sparsify_(network(), block=(16, 16), keep=0.25, include="[24]").to(device)
    models = {"dense": dense.to(device), "block-sparse": sparse}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=3e-3) for name, model in models.items()}
    losses: dict[str, list[float]] = {name: [] for name in models}
    patterns = [sparse[2].pattern]
    for step in range(steps + 1):
        x = torch.randn(BATCH, 32, device=device)
        with torch.no_grad():
            target = teacher(x) * 4
        for name, model in models.items():
            with torch.autocast(device, dtype=dtype, enabled=device == "cuda"):
                loss = torch.nn.functional.mse_loss(model(x).float(), target)
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
            losses[name].append(loss.item())
        if step % every == 0:
            report(f"step {step:4d}  " + "  ".join(f"{name} {values[-1]:.4f}" for name, values in losses.items()))
            if 0 < step < steps:
                generator = np.random.default_rng(step)
                sparse[2].drop_and_grow(0.1, optimizer=optimizers["block-sparse"], generator=generator)
                patterns.append(sparse[2].pattern)
    report(str(sparse[2]))
    return losses, patterns


if __name__ == "__main__":
    train()
