"""The table of what is timed: bf16, forward, groups of rows that have the same peers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One attention."""

    group: str
    problems: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    columns: tuple[int, int]
    """Of Q and K, and of V."""
    mask: str = "full"
    """`full`, `causal`, or `window`."""
    window: int = 0
    """How many keys a query sees, its own the last of them."""
    sinks: bool = False

    @property
    def name(self) -> str:
        """The row's name."""
        depth, width = self.columns
        columns = f"d {depth}" if depth == width else f"d {depth}, {width}"
        mask = f"window of {self.window}" if self.mask == "window" else self.mask
        heads = f"{self.heads} heads" + (f" over {self.key_heads}" if self.key_heads != self.heads else "")
        sizes = f"{self.queries} x {self.keys}" if self.queries != self.keys else str(self.queries)
        return f"{columns}, {mask}{', sinks' if self.sinks else ''}, {heads}, {self.problems} x {sizes}"

    @property
    def condition(self) -> str | None:
        """Which pairs count, in the language of scores."""
        return {"full": None, "causal": "i >= j", "window": f"i >= j && i - j < {self.window}"}[self.mask]

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that count, of a head; queries and keys are as many but for full masks."""
        if self.mask == "full":
            return self.queries * self.keys
        wide = self.queries if self.mask == "causal" else min(self.window, self.queries)
        return wide * (wide + 1) // 2 + (self.queries - wide) * wide

    @property
    def flops(self) -> int:
        """Operations of the pairs that count."""
        return 2 * sum(self.columns) * self.pairs * self.heads * self.problems

    @property
    def bytes(self) -> int:
        """Bytes of Q, K, V and O, each once."""
        width = sum(self.columns)
        return 2 * width * self.problems * (self.heads * self.queries + self.key_heads * self.keys)


def decode() -> Iterator[Case]:
    """One query of each problem."""
    for key_heads in (8, 4):
        for problems in (8, 32, 64):
            for keys in (8_192, 32_768, 131_072):
                yield Case("decode", problems, 32, key_heads, 1, keys, (128, 128))


def narrow() -> Iterator[Case]:
    """Heads of 64 columns."""
    for rows in (8_192, 16_384):
        for mask in ("full", "causal"):
            yield Case("d64", 1, 16, 16, rows, rows, (64, 64), mask)


def sinks() -> Iterator[Case]:
    """GPT-OSS's layers with a window, and the same without sinks."""
    for has_sinks in (True, False):
        yield Case("sinks", 2, 64, 8, 32_768, 32_768, (64, 64), "window", 128, has_sinks)


def wide() -> Iterator[Case]:
    """Other head dimensions."""
    for columns in ((96, 96), (192, 128), (256, 256)):
        for mask in ("full", "causal", "window"):
            yield Case("wide", 1, 16, 16, 16_384, 16_384, columns, mask, 1024 if mask == "window" else 0)


GROUPS = {"decode": decode, "d64": narrow, "sinks": sinks, "wide": wide}
