"""``bsr sanitize`` from Python: kernels of Triton and PTX of any origin on the simulator."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._native import Error
from ._sanitize_arguments import Arguments, Param, TensorMap, described
from ._sanitize_report import Finding, Place, SanitizeError, SanitizeReport, Source, report_of
from ._sanitize_triton import TritonLaunch, is_triton

__all__ = ["Finding", "Place", "SanitizeError", "SanitizeReport", "Source", "TensorMap", "sanitize"]

_Sizes = tuple[int, int, int]


def sanitize(
    kernel: Any,
    grid: Any,
    args: Sequence[Any] | Mapping[str, Any] = (),
    *,
    entry: str | None = None,
    block: Any = None,
    cluster: Any = None,
    shared: int | None = None,
    dependent: bool = False,
    schedules: int = 4,
    seed: int = 0,
    max_steps: int = 50_000_000,
    tolerance: float | None = None,
    allow: Sequence[str] = (),
    check: bool = False,
    **named: Any,
) -> SanitizeReport:
    """Runs a kernel on the CPU and reports races, misused barriers, missing fences, accesses out of bounds and deadlocks.

    ``kernel`` is a function under ``@triton.jit``, which is compiled for ``sm_90a`` without a GPU, or PTX text for
    ``sm_70`` to ``sm_90a``, or the path of such a text. ``grid`` and ``args`` are those of ``kernel[grid](*args)``:

    >>> import bsr_gemm, numpy as np
    >>> report = bsr_gemm.sanitize(add, (3,), (x, y, out, 700), BLOCK=256, num_warps=4)   # doctest: +SKIP
    >>> assert report.passed, report                                                      # doctest: +SKIP
    >>> np.testing.assert_allclose(report.arrays["out"], x + y)                           # doctest: +SKIP

    Arrays are of NumPy or of PyTorch on the CPU, without gaps (transposes are), and are passed by their address.
    The launch works on copies: nothing is written to them, so that every schedule starts from the same values and
    the arguments may be used again. ``report.arrays`` has what the first schedule left, by the argument's name or,
    of PTX, its position. Nothing is near an array: an access one element beyond it is a finding.

    Of Triton, further keywords are arguments by name (constants), and options of its compiler (``num_warps``,
    ``num_stages``); ``grid`` may be a function of the arguments. ``args`` may be a mapping by name, which also
    takes arguments that are called like a keyword of this function. Tensor descriptors of ``triton.tools`` are
    passed as maps.

    Of PTX, ``args`` are the parameters in order: arrays or None for addresses, numbers that fit ``.u32``, ``.f32``
    and so on, anything that has the bytes of a structure (``.b8[]``), and `TensorMap`. ``entry`` names a kernel of
    several, ``block`` is needed where the text has no ``.reqntid``, ``shared`` is the bytes of dynamic shared
    memory. ``dependent`` says that an earlier kernel of the stream may still run.

    The kernel runs under ``schedules`` orders of threads and copies that the PTX ISA allows, at most ``max_steps``
    warp instructions a cluster. Results of two schedules that differ by more than ``tolerance`` (relative to an
    element and the mean magnitude; by type if None) are a finding. ``allow`` accepts findings, as the command does:
    ``"kernels.py:20=the flag is polled"``, ``"201:race=.."`` for line 201 of the PTX and one class.

    Findings raise nothing, unless ``check`` is true: then `SanitizeError` has them in words. `Error` is raised for
    what cannot be launched.
    """
    shape = {"entry": entry, "block": block, "cluster": cluster, "shared": shared}
    if is_triton(kernel):
        # Arguments of a kernel may be called so.
        launch = TritonLaunch(kernel, grid, args, named | {k: v for k, v in shape.items() if v is not None})
        foreign, ptx, meta = launch.foreign, launch.ptx, launch.meta
        programs = _sizes("grid", launch.grid)
        arguments = launch.arguments(math.prod(programs))
        required, clusters = foreign.required
        threads = required or (32 * meta.num_warps, 1, 1)
        blocks = clusters or (meta.num_ctas, 1, 1)
        programs, shared = (programs[0] * meta.num_ctas, *programs[1:]), meta.shared
    else:
        ptx = _text(kernel)
        foreign = _native.Foreign(ptx, entry)
        if named:
            raise Error(
                f"`{next(iter(named))}` is no argument of a launch of PTX\n  help: pass the parameters in args, in order"
            )
        programs = _sizes("grid", grid)
        arguments = _of_ptx(foreign, args)
        required, clusters = foreign.required
        if block is None and required is None:
            raise Error(
                f"`{foreign.entry}` does not say how many threads a block has (.reqntid)\n  help: block=128, or a tuple"
            )
        threads = _sizes("block", required if block is None else block)
        blocks = _sizes("cluster", (clusters or 1) if cluster is None else cluster)
    _positive("schedules", schedules, 10_000)
    _positive("max_steps", max_steps, 2**63 - 1)
    told, text, left, notes = foreign.run(
        (programs, blocks, threads, int(shared or 0), dependent),
        arguments.native(),
        arguments.passed,
        (schedules, seed % 2**64, max_steps, tolerance),
        list(allow),
    )
    text = f"kernel {foreign.entry}; buffers: {arguments.told()}\n{text}"
    report = report_of(told, text, arguments.left(left), notes, ptx)
    if check and not report.passed:
        raise SanitizeError(report)
    return report


def _text(kernel: Any) -> str:
    """The PTX."""
    if isinstance(kernel, os.PathLike):
        return Path(kernel).read_text()
    if not isinstance(kernel, str):
        raise Error(
            f"the kernel is {described(kernel)}\n  help: pass a function under @triton.jit, PTX text, or the path of such a text"
        )
    if "\n" not in kernel and kernel.endswith(".ptx"):
        raise Error(f"the kernel is the text {kernel!r}, which is no PTX\n  help: pass pathlib.Path({kernel!r})")
    return kernel


def _of_ptx(foreign: _native.Foreign, args: Sequence[Any] | Mapping[str, Any]) -> Arguments:
    """The arguments of a launch of PTX."""
    declared = [Param(*param) for param in foreign.params]
    given = [args[param.name] for param in declared if param.name in args] if isinstance(args, Mapping) else list(args)
    if len(given) != len(declared) or len(given) != len(args):
        of = args.items() if isinstance(args, Mapping) else enumerate(args)
        raise Error(
            f"`{foreign.entry}` takes {len(declared)} parameters: {', '.join(map(str, declared))}\n"
            f"  given are {len(args)}: {', '.join(f'{key}: {described(value)}' for key, value in of)}"
        )
    arguments = Arguments()
    for number, (param, value) in enumerate(zip(declared, given)):
        key, name = (param.name, f"`{param.name}`") if isinstance(args, Mapping) else (number, f"argument {number}")
        arguments.add(key, name, param, value)
    return arguments


def _sizes(what: str, given: Any) -> _Sizes:
    """One to three sizes; those that are left out are 1."""
    sizes = list(given) if isinstance(given, (tuple, list)) else [given]
    try:
        whole = [int(size) for size in sizes]
    except (TypeError, ValueError):
        whole = []
    if not 1 <= len(whole) <= 3 or any(not 1 <= size < 2**31 for size in whole):
        raise Error(f"{what} is {given!r}\n  help: a positive number, or one to three of them")
    x, y, z = whole + [1] * (3 - len(whole))
    return x, y, z


def _positive(what: str, given: int, most: int) -> None:
    if not 1 <= given <= most:
        raise Error(f"{what} is {given}\n  help: a number from 1 to {most}")
