"""Which kernels are taken: what is known of them, how to measure them, and why one was chosen."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from . import _arrays, _command, _native, _tuned
from ._matrix import BsrMatrix, as_matrix
from ._native import Error
from ._patterns import Pattern

#: The most rows of an operand, as for the command.
LONGEST_SIDE = 2**27
#: What runs a sweep: this machine, or a cluster of Ray.
Engine = Literal["local", "ray"]
#: The products of a training step: of a layer, of the gradient of its input, of that of its weight.
Product = Literal["forward", "input", "weight"]
ENGINES, PRODUCTS = get_args(Engine), get_args(Product)


@dataclass(frozen=True)
class Choice:
    """A kernel for one product, and why it is taken."""

    product: str
    """``forward``, ``input`` or ``weight``."""
    spec: str
    """The kernel."""
    why: str
    """Everything that led to it, in words."""

    @classmethod
    def of(cls, product: str, words: str) -> Choice:
        """Of what the tuner says."""
        spec = next(line for line in words.splitlines() if line.startswith("kernel"))
        return cls(product, spec.removeprefix("kernel").strip(), words)

    def __str__(self) -> str:
        return f"product   {self.product}\n{self.why}"


def facts_of(w: BsrMatrix, product: str, capability: tuple[int, int]) -> str:
    """What a product of a training step is on a GPU of a compute capability, in the words of a spec."""
    if product not in PRODUCTS:
        raise Error(f"the product {product!r}\n  help: it is one of {', '.join(PRODUCTS)}")
    kind = _arrays.kind_of(w.values)
    has_inputs = product == "input" and max(w.block) <= _arrays.SMALL
    if kind == "i32" or (kind in _arrays.WIDE and product != "forward" and not has_inputs):
        raise Error(f"no kernel computes the product {product!r} of {kind}\n  help: `w.to(torch.bfloat16)`")
    bm, bk = w.block
    facts = f"bm = {bm}, bn = 64, bk = {bk}, dtype = {kind}, out = {_arrays.result_kind(kind)}, "
    if product == "weight":
        return facts + "op = sdd, a_layout = col, b_layout = row"
    is_rounded = _arrays.in_tf32(kind, w.block, capability)
    lies = "row" if _arrays.by_rows(kind, w.block) and not is_rounded else "col"
    layouts = f"transpose = {'on' if product == 'input' else 'off'}, b_layout = {lies}, c_layout = {lies}"
    return facts + layouts + (", tf32 = on" if is_rounded else "")


def _tokens(x: Any) -> int:
    """Rows that a layer multiplies: the number itself, or those of an operand."""
    is_number = isinstance(x, (int, np.integer))
    count = int(x) if is_number else math.prod(_arrays.as_array(x).shape[:-1])
    if count > LONGEST_SIDE or (is_number and count < 1):
        help_ = f"give the number of tokens, from 1 to {LONGEST_SIDE}, or an operand of the layer"
        raise Error(f"{count} rows\n  help: {help_}")
    return count


def explain(w: Any, x: Any, *, product: Product = "forward", transpose: bool = False, gpu: str | None = None) -> str:
    """Which kernel multiplies ``x`` (or that many rows) with ``w`` in ``linear``, and why it is taken.

    ``w`` is a matrix or a layer. ``product`` is ``"forward"``, ``"input"`` (the gradient of the input) or ``"weight"`` (that
    of the weight); ``transpose`` is another word for ``"input"``. ``gpu`` is a card that is known, by its name or a part of it, as
    the command `bsr explain` takes it: ``"H100 PCIe"``; by default it is the GPU of this machine, or else an NVIDIA H200.
    """
    matrix = as_matrix(w, "the weight")
    card = _card(gpu)
    facts = facts_of(matrix, "input" if transpose else product, card[1])
    return _native.explain(matrix.pattern._native, facts, _tokens(x), card, _tuned.settings().text())


def _card(name: str | None) -> tuple[str, tuple[int, int]]:
    """A card's name and compute capability: of the one that is named, that is here, or that the shipped table is of."""
    torch = sys.modules.get("torch")
    if name is None and torch is not None and torch.cuda.is_available():
        return torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    return _native.card("NVIDIA H200" if name is None else name)


def tune(w: Any, x: Any, *, backward: bool = False, device: Any = None) -> list[Choice]:
    """Measures the likeliest kernels for ``linear`` of ``x`` (or that many rows) with ``w`` on a GPU, and takes the fastest from
    now on; with ``backward`` those of both gradients too.

    Eight kernels of each product are compared with the reference and timed in turn, on matrices of this pattern. What the
    table has for such a problem is not measured again. :func:`set_tuning` names a file that keeps what was measured.
    """
    matrix, tokens = as_matrix(w, "the weight"), _tokens(x)
    products = PRODUCTS if backward else PRODUCTS[:1]
    index = _gpu_for(matrix, device)
    from . import _gpu

    facts = [facts_of(matrix, product, _gpu.capability_of(index)) for product in products]

    choices = []
    for product, fact in zip(products, facts):
        words, line = _gpu.gpu_of(index).tune(matrix.pattern._native, fact, tokens)
        if line is not None:
            _tuned.remember(line)
        choices.append(Choice.of(product, words))
    _gpu.choose_anew()
    return choices


def _gpu_for(matrix: BsrMatrix, device: Any) -> int:
    import importlib.util

    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if torch is None or not torch.cuda.is_available():
        raise Error(
            "kernels are measured on a GPU, and there is none here\n"
            "  help: `bsr_gemm.explain(w, x)` predicts, and `bsr_gemm.sweep(w, x, device='sim')` checks kernels on the simulator"
        )
    found = torch.device(device) if device is not None else getattr(matrix.values, "device", None)
    if found is None or torch.device(found).type != "cuda" or torch.device(found).index is None:
        return torch.cuda.current_device()
    return torch.device(found).index


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured; everything is in its database too."""

    database: Path
    """The file, which ``python -m bsr_gemm report`` makes a page of."""
    records: list[dict[str, Any]]
    """What became of each kernel, the fastest first: ``subject`` is the kernel, ``verdict`` what became of it."""
    summary: str
    """What the command said."""

    @property
    def best(self) -> dict[str, Any] | None:
        """The fastest of this project's kernels."""
        ours = (record for record in self.records if not record["baseline"] and record["verdict"] == "timed")
        return next(ours, None)

    @property
    def is_measured(self) -> bool:
        """Whether a GPU measured; the simulator checks kernels, and their times are predicted."""
        return any(record["device"]["kind"] == "gpu" for record in self.records)

    def report(self, path: Any) -> Path:
        """Writes a page with tables and pictures."""
        _command.output("report", str(self.database), "-o", str(path))
        return Path(path)

    def __str__(self) -> str:
        return self.summary


def sweep(
    w: Any,
    x: Any,
    *,
    product: Product = "forward",
    database: Any = "bsr.db",
    space: str = "auto",
    device: Literal["auto", "gpu", "sim"] = "auto",
    devices: str = "0",
    limit: int | None = None,
    budget: str | None = None,
    halving: bool = True,
    engine: Engine = "local",
    shards: int | None = None,
) -> Sweep:
    """Measures the kernels of a space for ``linear`` of ``x`` (or that many rows) with ``w``, and remembers all of them.

    The product is that of :func:`explain`. Rows count as the next power of two, for which kernels are chosen. ``device`` is
    ``"gpu"``, ``"sim"`` - the simulator checks kernels, and times are predicted - or ``"auto"``; the other settings are those
    of the command `bsr sweep`. What a GPU measured is used from now on. A sweep that was interrupted goes on where it ended: its
    results are in the database, and the matrix is kept in a file of the user's cache (``$XDG_CACHE_HOME/bsr-gemm``).

    With ``engine="ray"`` the points are measured by a cluster of Ray, in so many ``shards``, each a task with one GPU (or, with
    the simulator, one CPU). Results come into the database while they are measured; the shard of a worker that dies is measured
    by another from where it ended. ``devices`` and ``limit`` are of one machine, and of each shard.
    """
    if engine not in ENGINES:
        raise Error(f"engine = {engine!r}\n  help: it is one of {', '.join(ENGINES)}")
    matrix, tokens = as_matrix(w, "the weight"), _tokens(x)
    kernel = facts_of(matrix, product, _card(None)[1]).replace("bn = 64, ", "")
    rows = 1 << (tokens - 1).bit_length()
    file = _written(matrix, _cache())
    extent = ("--k", str(rows)) if product == "weight" else ("--n", str(rows))
    options = ["--space", space, "--device", device, "--devices", devices if engine == "local" else "0"]
    options += ["--limit", str(limit)] if limit is not None else []
    options += ["--budget", budget] if budget is not None else []
    options += ["--halving"] if halving and device != "sim" else []
    command = ["sweep", "--kernel", kernel, *extent, *options]
    if engine == "ray":
        from . import _cluster

        summary = _cluster.sweep_by_ray(command, file, Path(database), shards)
    else:
        summary = _command.output(*command, "--matrix", str(file), "--db", str(database))
    lines = _command.output("export", str(database), "--json", "-").splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    mine = [record for record in records if _is_of(record["problem"]["workload"], file, rows, product)]
    mine.sort(key=lambda record: (record["timing"] or {}).get("median_us") or float("inf"))
    swept = Sweep(Path(database), mine, summary)
    if swept.is_measured:
        tuned = _command.output("export", str(database), "--tuned", "-").splitlines()
        _tuned.add([line for line in tuned if line.startswith("{")])
        _tuned.choose_anew()
    return swept


def _is_of(workload: dict[str, Any], file: Path, rows: int, product: str) -> bool:
    """Whether a record is of this sweep's problem."""
    is_sddmm = "op = sdd" in workload["facts"]
    transposed = "transpose = on" in workload["facts"]
    same = workload["k" if is_sddmm else "n"] == rows and file.name in json.dumps(workload["source"])
    return same and (is_sddmm, transposed) == (product == "weight", product == "input")


def _cache() -> Path:
    """Where matrices of sweeps are kept: a database knows a problem by the path of its file."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bsr-gemm")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _written(matrix: BsrMatrix, folder: Path) -> Path:
    """A file with the matrix, as the command reads it; it is named after the pattern, so that a sweep finds it again."""
    pattern: Pattern = matrix.pattern
    name = f"bsr-{pattern.key[:16]}"
    values = matrix.values
    if _arrays.is_tensor(values):
        values = values.detach().float().cpu().numpy()
    values = np.asarray(values, dtype=np.float32)
    (rows, cols), (bm, bk) = pattern.shape, pattern.block
    is_whole = rows % bm == 0 and cols % bk == 0
    file = folder / f"{name}.{'npz' if is_whole else 'npy'}"
    # Another sweep of this pattern may be reading the file: it is replaced as a whole.
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as made:
        if is_whole:
            parts: dict[str, Any] = {"indptr": pattern.row_ptr, "indices": pattern.col_idx, "data": values}
            np.savez(made, format=np.array(b"bsr"), shape=np.array(pattern.shape), **parts)
        else:
            np.save(made, BsrMatrix(values, pattern, check=False).to_dense())
    os.replace(made.name, file)
    return file
