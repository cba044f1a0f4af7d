"""The book's pages on Python: their code runs, and their pictures are drawn from what they say; what `help` says."""

from __future__ import annotations

import importlib.util
import pydoc
import re
from pathlib import Path

import pytest
from apart import run

import bsr_gemm as bsr

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "docs/src"

if not BOOK.exists():
    pytest.skip("the book is not beside the tests", allow_module_level=True)


def blocks(path: Path) -> list[tuple[list[str], str]]:
    """The blocks of Python of a page: the marks of each, and its text."""
    fences = re.findall(r"(?ms)^```python(\S*)\n(.*?)^```$", path.read_text())
    return [(marks.strip(",").split(",") if marks else [], text) for marks, text in fences]


@pytest.mark.parametrize("page", sorted(path.name for path in [*BOOK.glob("python*.md"), ROOT / "python/README.md"]))
def test_the_code_of_a_page_runs(page) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    path = BOOK / page if page != "README.md" else ROOT / "python/README.md"
    has = {name: importlib.util.find_spec(name) is not None for name in ("torchao", "transformers")}
    has |= {"sweep": True, "gpu": False}
    texts = [text for marks, text in blocks(path) if all(has[mark] for mark in marks)]
    run("\n".join(texts))


def test_the_picture_of_speed_says_what_was_measured() -> None:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "python/examples/pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    log = (ROOT / "benches/LOG.md").read_text()
    drawn = (BOOK / "images/python-speed.svg").read_text()
    assert drawn == pictures.speed_picture(log), "draw it anew: `python examples/pictures.py ../docs/src/images`"


def test_help_begins_with_what_is_for_users() -> None:
    """What `help(bsr_gemm)` prints: every public name in a class, a function or the summary, and no list of private modules."""
    text = pydoc.render_doc(bsr, renderer=pydoc.plaintext)
    summary, _, rest = text.partition("PACKAGE CONTENTS")
    modules = rest.partition("CLASSES")[0].split("\n")
    assert [line.strip() for line in modules if line.strip()] == [
        "__main__",
        "_lib (package)",
        "nn",
        "parallel",
        "stk (package)",
        "transformers",
    ]
    for heading in ("Matrices", "Products", "Attention", "Layers", "Kernels", "Choices"):
        names = re.search(rf"{heading} +(.*)", summary).group(1)
        for name in re.findall(r"\w+(?:\.\w+)*", names.replace("w @ x, ", "").replace("(with PyTorch)", "")):
            found = bsr
            for part in name.split("."):
                assert part in getattr(found, "__all__", dir(found)), name
                found = getattr(found, part)
    for name in set(bsr.__all__) - {"__version__"}:
        assert re.search(rf"\b{name}\b", text.partition("__all__ =")[0]), name
