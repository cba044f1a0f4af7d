"""Trains a transformer layer with a sliding window: ``python examples/attention.py [PICTURE.svg]``.

Tokens are random letters, and a letter is to be recalled that stood a fixed number of places before. The layer with
block-sparse attention is trained beside one that masks dense attention of PyTorch, from the same weights on the same tokens.
The picture has the mask's blocks and, for one query in four, what it attends to after training. On a GPU the speed beside
FlexAttention and PyTorch's dense attention follows.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import bsr_gemm as bsr

LETTERS, WIDTH, HEADS, BACK = 16, 64, 4, 5


class Layer(nn.Module):
    """One layer of a transformer before a linear one that names letters."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(length, WIDTH)
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128), nn.GELU("tanh"), nn.Linear(128, WIDTH))
        self.head = nn.Linear(WIDTH, LETTERS)

    def projected(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedded tokens, and Q, K and V: problems x rows x 3 x heads x columns."""
        x = self.letters(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return x, self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))

    def forward(self, tokens: torch.Tensor, attend: Callable) -> torch.Tensor:
        x, qkv = self.projected(tokens)
        # Rows first: as the projection has written them, without a copy.
        x = x + self.out(attend(*qkv.unbind(2)).flatten(2))
        return self.head(x + self.mlp(x))


def attentions(length: int, mask: bsr.AttentionMask, before: int, device: str) -> dict[str, Callable]:
    """Attention at the blocks of a mask, and dense attention with the same pairs masked."""
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    pairs = ((distance >= 0) & (distance <= before)).to(device)

    def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=pairs).transpose(1, 2)

    return {"block-sparse": lambda q, k, v: bsr.attention(q, k, v, mask, layout="bshd"), "dense, masked": dense}


def train(
    steps: int = 100,
    length: int = 128,
    block: tuple[int, int] | None = None,
    before: int = 24,
    report: Callable[[str], None] = print,
    picture: Path | None = None,
) -> dict[str, list[float]]:
    """The losses of each model."""
    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    # Kernels of a GPU have blocks of 64 and more; the CPU takes any.
    block = (64, 64) if device == "cuda" else block or (16, 16)
    mask = bsr.AttentionMask.window((length, length), block, before=before)
    report(f"{mask}\n{mask.picture()}")
    torch.manual_seed(0)
    first = Layer(length)
    models = {name: Layer(length).to(device) for name in attentions(length, mask, before, device)}
    for model in models.values():
        model.load_state_dict(first.state_dict())
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=3e-3) for name, model in models.items()}
    losses: dict[str, list[float]] = {name: [] for name in models}
    for step in range(steps):
        tokens = torch.randint(LETTERS, (16, length)).to(device)
        for (name, model), attend in zip(models.items(), attentions(length, mask, before, device).values()):
            with torch.autocast(device, dtype=dtype, enabled=device == "cuda"):
                named = model(tokens, attend)[:, BACK:]
            loss = nn.functional.cross_entropy(named.float().flatten(0, 1), tokens[:, :-BACK].flatten())
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
            losses[name].append(loss.item())
        if step % 25 == 0 or step == steps - 1:
            report(f"step {step:4d}  " + "  ".join(f"{name} {values[-1]:.4f}" for name, values in losses.items()))
    if picture is not None:
        picture.write_text(drawn(models["block-sparse"], mask, before, device))
    return losses


@torch.no_grad()
def drawn(model: Layer, mask: bsr.AttentionMask, before: int, device: str) -> str:
    """The mask's blocks, and the probabilities of the first head for some tokens."""
    from pictures import COLOURS, svg, text

    length, (bm, bk) = mask.sizes[0], mask.block
    _, qkv = model.projected(torch.randint(LETTERS, (1, length)).to(device))
    q, k = (x[0, :, 0].float() for x in qkv.unbind(2)[:2])
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    scores = (q @ k.T / q.shape[-1] ** 0.5).cpu().masked_fill((distance < 0) | (distance > before), -torch.inf)
    probabilities = scores.softmax(-1)
    side = 288 / length
    whole, partial = ((mask.blocks()[0] == kind).sum() for kind in (1, 2))
    heading = f"blocks of the mask: {whole} whole, {partial} partial"
    parts = [text(164, 20, heading), text(492, 20, "what queries attend to")]
    for left in (20, 348):
        parts.append(f'<rect x="{left}" y="30" width="288" height="288" fill="#f2f2f2"/>')
    for row, line in enumerate(mask.blocks()[0]):
        for column, kind in enumerate(line):
            if kind:
                x, y = 20 + column * bk * side, 30 + row * bm * side
                width, height = (min(bk, length - column * bk) * side - 1, min(bm, length - row * bm) * side - 1)
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{COLOURS[2 * (kind == 2)]}"/>'
                )
    for row in range(3, length, 4):
        for column in range(max(0, row - before), row + 1):
            dark = float(probabilities[row, column]) ** 0.5
            if dark > 0.1:
                place = f'x="{348 + column * side:.1f}" y="{30 + (row - 3) * side:.1f}"'
                parts.append(
                    f'<rect {place} width="{side:.1f}" height="{4 * side:.1f}" fill="{COLOURS[1]}" fill-opacity="{dark:.2f}"/>'
                )
    return svg(656, 338, parts)


def speed(length: int = 16384, heads: int = 16, before: int = 1024) -> None:
    """Times a forward pass beside FlexAttention's and that of PyTorch's dense causal attention, in turn."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, heads, length, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    mask = bsr.AttentionMask.window((length, length), before=before)
    flex_mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j <= before), None, None, length, length)
    flex = torch.compile(flex_attention)
    functions = {
        "bsr_gemm": lambda: bsr.attention(q, k, v, mask),
        "FlexAttention": lambda: flex(q, k, v, block_mask=flex_mask),
        "dense, causal": lambda: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    with torch.no_grad():
        outputs = [function() for function in functions.values()]
        assert (outputs[0] - outputs[1]).float().norm() < 1e-2 * outputs[1].float().norm()
        times: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(30):
            for name, function in functions.items():
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                function()
                end.record()
                end.synchronize()
                times[name].append(start.elapsed_time(end))
    print(f"a window of {before}, {length} tokens, {heads} heads of 128: ", end="")
    print(", ".join(f"{name} {statistics.median(samples):.3f} ms" for name, samples in times.items()))


if __name__ == "__main__":
    train(picture=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        speed()
