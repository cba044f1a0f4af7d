"""Counts the instructions of PTX texts by family, as a table of Markdown: python3 count.py KERNEL.ptx .."""

import re
import sys
from collections import Counter
from pathlib import Path

# An instruction: at the start of a line or after a brace, perhaps guarded; not a label, a directive or a declaration.
INSTRUCTION = re.compile(r"^[\s{]*(?:@!?[%\w$]+\s+)?([a-z][a-z0-9]*(?:[.:]+[\w:]+)*)(?=[\s;])")
# Families whose second words say what is done.
WIDE = {"wgmma", "mbarrier", "barrier", "fence", "tensormap", "cp", "griddepcontrol", "setmaxnreg", "mma", "prefetch"}


def family(opcode: str) -> str:
    """The words of an opcode that name what it does."""
    words = opcode.split(".")
    if words[0] == "cp":
        return ".".join(word for word in words if word in {"cp", "reduce", "async", "bulk", "tensor"})
    return ".".join(words[:2]) if words[0] in WIDE else words[0]


def opcodes(path: Path) -> list[str]:
    """The opcodes of a text, in order; bodies of functions count, directives do not."""
    lines = path.read_text().splitlines()
    body = [line for line in lines if not line.lstrip().startswith((".", "//", "$"))]
    found = (INSTRUCTION.match(line) for line in body)
    return [match[1] for match in found if match]


def main() -> None:
    """Prints the table."""
    counts: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    for path in map(Path, sys.argv[1:]):
        own = Counter(map(family, opcodes(path)))
        counts.update(own)
        texts.update(own.keys())
    print("| family | instructions | texts |\n|---|---|---|")
    for name, count in sorted(counts.items()):
        print(f"| `{name}` | {count} | {texts[name]} |")
    print(f"| all | {counts.total()} | {len(sys.argv) - 1} |")


if __name__ == "__main__":
    main()
