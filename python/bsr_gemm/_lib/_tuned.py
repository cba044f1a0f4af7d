"""What is known of kernels on GPUs, and what is done for products of which nothing is known."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from . import _command, _native
from ._native import Error

#: What may be done for a product that nothing is known of.
FirstUse = Literal["predict", "measure"]
FIRST_USES: tuple[str, ...] = get_args(FirstUse)

#: Called with results that are added, and when kernels are to be chosen once more: GPUs register here.
on_lines: list[Callable[[str], None]] = []
on_change: list[Callable[[], None]] = []


@dataclass
class _Settings:
    """What was said by :func:`set_tuning`, and what was measured."""

    first_use: str = "predict"
    path: Path | None = None
    lines: list[str] = field(default_factory=list)

    def text(self) -> str:
        return "".join(self.lines)


_settings = _Settings()
_is_read = False


def settings() -> _Settings:
    """What was said, by the environment too."""
    global _is_read
    if not _is_read:
        _is_read = True
        first_use, table = os.environ.get("BSR_TUNING"), os.environ.get("BSR_TUNED")
        if first_use or table:
            set_tuning(first_use or None, table=table or None)  # type: ignore[arg-type]
    return _settings


def set_tuning(first_use: FirstUse | None = None, *, table: Any = None) -> None:
    """Says how kernels are chosen from now on.

    ``first_use`` is what happens for a product that nothing is known of: ``"predict"`` takes what the cost model ranks first,
    ``"measure"`` times the likeliest few when it is first computed on a GPU, which takes some seconds, and remembers the
    fastest. ``table`` is a file of results: those in it are used, and what is measured is added to it. A database of
    :func:`sweep` (``.db``) is read only. The environment says the same with ``BSR_TUNING`` and ``BSR_TUNED``.
    """
    said = settings()
    if first_use is not None and first_use not in FIRST_USES:
        raise Error(f"first_use = {first_use!r}\n  help: it is one of {', '.join(FIRST_USES)}")
    if table is not None:
        path = Path(table)
        if path.suffix == ".db":
            add(_command.output("export", str(path), "--tuned", "-").splitlines(keepends=True))
        else:
            add(path.read_text().splitlines(keepends=True) if path.exists() else [])
            said.path = path
    said.first_use = first_use or said.first_use
    choose_anew()


def add(lines: list[str]) -> None:
    """Uses further results."""
    lines = [line if line.endswith("\n") else line + "\n" for line in lines if line.strip()]
    text = "".join(lines)
    _native.check_table(text)
    settings().lines += lines
    for added in on_lines if lines else ():
        added(text)


def choose_anew() -> None:
    """Lets every product choose its kernel once more."""
    for chosen in on_change:
        chosen()


def remember(line: str) -> None:
    """Keeps what was measured, in the file too where there is one."""
    said = settings()
    said.lines.append(line)
    if said.path is not None:
        # Appended in one write, so that several processes may share the file.
        with said.path.open("a") as file:
            file.write(line)
