"""Trains a block-sparse network beside a dense one, and lets its pattern move: ``python examples/train_mlp.py``.

The task is a teacher's: a dense network of the same width. Runs on a CPU, and on a GPU where there is one.
"""

from __future__ import annotations

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


def main() -> None:
    torch.manual_seed(0)
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    teacher = network().to(device)
    dense = network()
    sparse = nn.sparsify_(network(), block=(16, 16), keep=0.25, include="[24]").to(device)
    models = {"dense": dense.to(device), "block-sparse": sparse}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=3e-3) for name, model in models.items()}
    for step in range(STEPS + 1):
        x = torch.randn(BATCH, 32, device=device)
        with torch.no_grad():
            target = teacher(x) * 4
        losses = {}
        for name, model in models.items():
            with torch.autocast(device, dtype=dtype, enabled=device == "cuda"):
                loss = torch.nn.functional.mse_loss(model(x).float(), target)
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
            losses[name] = loss.item()
        if step % 50 == 0:
            print(f"step {step:4d}  " + "  ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
            if 0 < step < STEPS:
                sparse[2].drop_and_grow(0.1, optimizer=optimizers["block-sparse"])
    print(sparse[2])


if __name__ == "__main__":
    main()
