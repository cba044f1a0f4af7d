"""Trains a small transformer with a window, and with blocks that are chosen on the GPU in every step, beside dense attention.

The task has a memory: every token is that of 48 to 96 places before it, a distance that each sequence has of its own, so that a model
must look back to find it. All models begin with the same weights and see the same sequences. The chosen blocks change from step
to step and from layer to layer: each layer scores blocks of keys by the means of its queries and keys, keeps the best few of each row,
and writes them into its `DeviceMask`. Nothing of that waits for the GPU, in the forward pass or in the backward pass.

    python train_transformer.py [--steps N] [--length N] [--block N]
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

import bsr_gemm as bsr

TOKENS, COLUMNS, HEADS, LAYERS, BATCH = 64, 64, 4, 2, 8
LAGS = range(48, 97)


class Dense(nn.Module):
    """Causal attention to every key before a query."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Window(nn.Module):
    """Attention to the last 128 keys."""

    def __init__(self, length: int, block: int) -> None:
        super().__init__()
        self.mask = bsr.AttentionMask.window((length, length), (block, block), before=128)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return bsr.attention(q, k, v, self.mask)


class Chosen(nn.Module):
    """Causal attention to the blocks with the best scores of their means, and to the query's own."""

    def __init__(self, length: int, block: int, device: str, kept: int = 3) -> None:
        super().__init__()
        blocks, self.block, self.kept = length // block, block, kept
        self.bytes = torch.zeros(BATCH, HEADS, blocks, blocks, dtype=torch.uint8, device=device)
        self.mask = bsr.DeviceMask.from_blocks(self.bytes, (length, length), (block, block), mask="i >= j")
        self.before = torch.ones(blocks, blocks, dtype=torch.bool, device=device).tril(-1)
        self.own = 2 * torch.eye(blocks, dtype=torch.uint8, device=device)

    @torch.no_grad()
    def choose(self, q: Tensor, k: Tensor) -> None:
        """Writes the blocks of this step: 1 for those before the query's own, 2 for that, which is causal inside."""
        means = [x.unflatten(2, (-1, self.block)).float().mean(dim=3) for x in (q, k)]
        scores = (means[0] @ means[1].mT).masked_fill(~self.before, -torch.inf)
        best = scores.topk(min(self.kept, scores.shape[-1]), dim=-1).indices
        chosen = torch.zeros_like(self.bytes).scatter_(-1, best, 1) * self.before
        self.bytes.copy_(chosen + self.own)
        self.mask.changed()

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.choose(q, k)
        return bsr.attention(q, k, v, self.mask)


class Layer(nn.Module):
    """Attention and a network, each behind a norm."""

    def __init__(self, attend: nn.Module) -> None:
        super().__init__()
        width = HEADS * COLUMNS
        self.attend = attend
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.network = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, COLUMNS)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.network(self.norms[1](x))


class Model(nn.Module):
    """A transformer over tokens, with an embedding of places."""

    def __init__(self, length: int, attentions: list[nn.Module]) -> None:
        super().__init__()
        width = HEADS * COLUMNS
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(attend) for attend in attentions))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places.weight
        return self.head(self.norm(self.layers(x)))


def sequences(length: int, generator: torch.Generator, device: str) -> Tensor:
    """Sequences of one token more than a model reads."""
    found = torch.randint(TOKENS, (BATCH, length + 1), generator=generator)
    for sequence in found:
        lag = LAGS[int(torch.randint(len(LAGS), (), generator=generator))]
        first = sequence[:lag].clone()
        sequence.copy_(first.repeat(length // lag + 2)[: length + 1])
    return found.to(device)


def train(name: str, model: Model, steps: int, length: int, device: str) -> float:
    """The mean loss of the last tenth of the steps, on tokens whose earlier ones are in the sequence."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    dtype, losses, start = torch.bfloat16, [], time.perf_counter()
    for step in range(steps):
        tokens = sequences(length, generator, device)
        with torch.autocast(device, dtype):
            scores = model(tokens[:, :-1])
        loss = functional.cross_entropy(
            scores[:, LAGS[-1] :].float().flatten(0, 1), tokens[:, LAGS[-1] + 1 :].flatten()
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) % max(1, steps // 5) == 0:
            print(f"{name:<24} step {step + 1:>5}   loss {loss.item():.4f}")
    found = torch.stack(losses[-max(1, steps // 10) :]).mean().item()
    print(f"{name:<24} loss {found:.4f}, {1e3 * (time.perf_counter() - start) / steps:.1f} ms a step\n")
    return found


def main() -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--block", type=int, default=64)
    arguments = parser.parse_args()
    length, block = arguments.length, arguments.block
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kinds = {
        "dense": Dense,
        "window of 128": lambda: Window(length, block),
        "3 blocks, chosen anew": lambda: Chosen(length, block, device),
    }
    losses = {}
    for name, attention in kinds.items():
        torch.manual_seed(0)
        model = Model(length, [attention() for _ in range(LAYERS)]).to(device)
        losses[name] = train(name, model, arguments.steps, length, device)
    for name, loss in losses.items():
        print(f"{name:<24} {loss:.4f}")
    return losses


if __name__ == "__main__":
    main()
