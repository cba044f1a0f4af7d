"""Draws the pictures of the book's pages on Python: ``python examples/pictures.py ../docs/src/images``.

The pattern and the losses are those of a run of ``train_mlp.py``, the window is that of ``attention.py``; the times are read from the last table of layers in the
repository's ``benches/LOG.md``, which the file beside the pictures names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

COLOURS = ("#33658a", "#d1495b", "#edae49", "#66a182")
FONT = 'font-family="sans-serif" font-size="12" fill="#222"'


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """A picture on white, so that it is readable on a dark page too."""
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([frame, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    """Words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {FONT.replace("12", str(size))}>{words}</text>'


def patterns_picture(patterns: Sequence) -> str:
    """The first and the last pattern: stored blocks dark, those that were grown in another colour."""
    side, gap = 14, 40
    first, last = patterns[0].mask(), patterns[-1].mask()
    rows, cols = first.shape
    parts = []
    for at, (mask, words) in enumerate([(first, "by norm, before training"), (last, "after five exchanges of 10 %")]):
        left = 20 + at * (cols * side + gap)
        parts.append(text(left + cols * side / 2, 20, words))
        parts.append(f'<rect x="{left}" y="30" width="{cols * side}" height="{rows * side}" fill="#f2f2f2"/>')
        for row in range(rows):
            for col in range(cols):
                if mask[row, col]:
                    colour = COLOURS[0] if first[row, col] else COLOURS[1]
                    place = f'x="{left + col * side + 1}" y="{30 + row * side + 1}"'
                    parts.append(f'<rect {place} width="{side - 2}" height="{side - 2}" fill="{colour}"/>')
    return svg(40 + 2 * cols * side + gap, 50 + rows * side, parts)


def loss_picture(losses: dict[str, list[float]], window: int = 10) -> str:
    """Losses over steps, means of a window, on a logarithmic axis."""
    import math

    left, top, width, height = 60, 20, 520, 260
    means = {
        name: [sum(values[at : at + window]) / window for at in range(0, len(values) - window + 1)]
        for name, values in losses.items()
    }
    every = [value for values in means.values() for value in values]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    steps = max(map(len, means.values()))

    def place(step: float, value: float) -> tuple[float, float]:
        return left + width * step / steps, top + height * (high - math.log10(value)) / (high - low)

    parts = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#bbb"/>']
    for power in range(low, high + 1):
        y = place(0, 10.0**power)[1]
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:g}" y2="{y:g}" stroke="#ddd"/>')
        parts.append(text(left - 8, y + 4, f"{10.0**power:g}", "end"))
    parts += [text(place(step, 1)[0], top + height + 18, str(step)) for step in range(0, steps + 1, 50)]
    parts.append(text(left + width / 2, top + height + 38, "step"))
    for at, (name, values) in enumerate(means.items()):
        line = " ".join("{:.1f},{:.1f}".format(*place(step, value)) for step, value in enumerate(values))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[at]}" stroke-width="1.5"/>')
        parts.append(
            f'<rect x="{left + width - 150}" y="{top + 14 + 20 * at}" width="14" height="4" fill="{COLOURS[at]}"/>'
        )
        parts.append(text(left + width - 130, top + 20 + 20 * at, name, "start"))
    return svg(left + width + 20, top + height + 50, parts)


def measured(log: str) -> tuple[str, list[tuple[str, list[tuple[str, float]]]]]:
    """The heading of the last entry with a table of layers, and of each row the ratios to the dense layers."""
    entries = [entry for entry in re.split(r"(?m)^(?=## )", log) if "| block, keep |" in entry]
    table = [line for line in entries[-1].splitlines() if re.match(r"\| \d+ x \d+, 0\.\d+", line)]
    columns = ("forward and backward", "forward", "decode of 16 tokens")
    rows = []
    for line in table:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        # The ratio is the last number of a cell that is not a time.
        ratios = [float(re.findall(r"\d+\.\d+(?! ms| us)", cell)[-1]) for cell in cells]
        rows.append((name, list(zip(columns, ratios))))
    return entries[-1].splitlines()[0].removeprefix("## "), rows


def speed_picture(log: str) -> str:
    """Times of the dense layers over those of the block-sparse ones."""
    heading, rows = measured(log)
    left, top, line, scale = 120, 50, 18, 60
    parts = [text(left, 20, "times as fast as the dense feed-forward network, H200, bf16", "start", 13)]
    parts.append(text(left, 36, f"measured: entry {heading}", "start", 10))
    y = top
    widest = max(ratio for _, cells in rows for _, ratio in cells)
    for name, cells in rows:
        parts.append(text(left - 10, y + line * len(cells) / 2 + 4, name.replace(" x ", "x"), "end"))
        for at, (_, ratio) in enumerate(cells):
            parts.append(
                f'<rect x="{left}" y="{y + 2}" width="{ratio * scale:.1f}" height="{line - 4}" fill="{COLOURS[at]}"/>'
            )
            parts.append(text(left + ratio * scale + 6, y + line - 5, f"{ratio:.2f}", "start", 11))
            y += line
        y += 10
    dense = left + scale
    parts.append(f'<line x1="{dense}" x2="{dense}" y1="{top}" y2="{y - 10}" stroke="#222" stroke-dasharray="3 3"/>')
    for at, (name, _) in enumerate(rows[0][1]):
        parts.append(f'<rect x="{left + 150 * at}" y="{y + 6}" width="12" height="12" fill="{COLOURS[at]}"/>')
        parts.append(text(left + 150 * at + 18, y + 16, name, "start"))
    return svg(int(left + max(widest * scale, 460) + 60), y + 30, parts)


def main(folder: Path) -> None:
    from train_mlp import train

    import attention

    attention.train(picture=folder / "python-attention.svg")
    losses, patterns = train()
    log = Path(__file__).resolve().parents[2] / "benches/LOG.md"
    (folder / "python-pattern.svg").write_text(patterns_picture(patterns))
    (folder / "python-loss.svg").write_text(loss_picture(losses))
    (folder / "python-speed.svg").write_text(speed_picture(log.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
