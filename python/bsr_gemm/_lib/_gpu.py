"""GPUs and their caches: patterns, chosen kernels, and products that lack only their addresses."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch

from . import _native, _tuned
from ._native import Error
from ._patterns import Pattern

#: The most prepared products, of different shapes.
READY = 8192

_lock = threading.RLock()
_gpus: dict[int, Any] = {}
_sparse: dict[tuple, Any] = {}
_loaded: dict[tuple, Any] = {}
_ready: dict[tuple, Any] = {}
#: What a call of `linear` finds its product by.
_layers: dict[tuple, tuple] = {}
#: What other modules keep of patterns and kernels on GPUs.
further_caches: list[dict] = []
#: How other modules forget what they keep of a mask.
on_forget: list[Callable[[str], None]] = []
#: Epilogues that no kernel takes.
_without: set[tuple] = set()
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = bool(_gpus)
    for cached in (*further_caches, _layers):
        cached.clear()


os.register_at_fork(after_in_child=_after_fork)


def refuse_fork() -> None:
    """Refuses a process that was forked from one that used a GPU, before PyTorch meets it."""
    if _forked:
        raise Error(
            "this process was forked from one that used a GPU, and CUDA does not work in such a process\n"
            "  help: start it with the method `spawn`: `torch.multiprocessing.set_start_method('spawn')`"
        )


def cached(cache: dict, key: Any, make: Callable[[], Any]) -> Any:
    """What a cache has, made now or before."""
    found = cache.get(key)
    if found is None:
        with _lock:
            found = cache.get(key)
            if found is None:
                found = cache[key] = make()
    return found


def gpu_of(index: int) -> Any:
    """A GPU by its number."""
    refuse_fork()
    return cached(_gpus, index, lambda: _opened(index))


def _opened(index: int) -> Any:
    gpu = _native.Gpu(index)
    gpu.add_tuned(_tuned.settings().text())
    return gpu


def capability_of(index: int) -> tuple[int, int]:
    """The compute capability of a GPU."""
    return torch.cuda.get_device_capability(index)


def sparse_of(index: int, pattern: Any, kind: str) -> Any:
    """A pattern on a GPU, for values of an element type."""

    def make() -> Any:
        return pattern.on_gpu(index).sparse(kind) if pattern.on_device else gpu_of(index).sparse(pattern._native, kind)

    return cached(_sparse, (index, pattern.key, kind), make)


def kernel_of(
    index: int, pattern: Pattern, facts: str, n: int, epilogue: str | None = None, is_list: bool = False
) -> Any:
    """The kernel for a product along `n`, or for a list of products of which that is the largest: chosen now or before."""
    key = (index, pattern.key, facts, n.bit_length() if n & (n - 1) else n.bit_length() - 1, epilogue, is_list)
    return cached(_loaded, key, lambda: _chosen(index, pattern, facts, n, epilogue, is_list))


def _chosen(index: int, pattern: Any, facts: str, n: int, epilogue: str | None, is_list: bool) -> Any:
    """A kernel, measured before it is chosen where the settings say so; nothing is measured while a graph is captured."""
    gpu = gpu_of(index)
    if pattern.on_device:
        return gpu.choose_listed(pattern.on_gpu(index), facts, n, epilogue)
    measures = _tuned.settings().first_use == "measure" and not is_list
    if measures and not torch.cuda.is_current_stream_capturing():
        _, line = gpu.tune(pattern._native, facts, n)
        if line is not None:
            _tuned.remember(line)
    return gpu.choose(pattern._native, facts, n, epilogue, is_list)


def choose_anew() -> None:
    """Makes every product choose its kernel again; compiled kernels stay cached."""
    with _lock:
        for cached in (_layers, _ready, _loaded, _without):
            cached.clear()


def _add_tuned(text: str) -> None:
    for gpu in _gpus.values():
        gpu.add_tuned(text)


_tuned.on_change.append(choose_anew)
_tuned.on_lines.append(_add_tuned)


def empty_cache() -> None:
    """Frees the cached patterns and kernels on GPUs, after all launches have finished.

    It is made again where it is needed. Graphs that were captured must not be replayed afterwards.
    """
    with _lock:
        for index, gpu in _gpus.items():
            torch.cuda.synchronize(index)
            gpu.forget()
        for cached in (*further_caches, _layers, _ready, _loaded, _sparse):
            cached.clear()


def ready_of(loaded: Any, sparse: Any, pattern: Pattern, shapes: tuple, further: tuple, second: int | None) -> Any:
    """A product that only lacks its addresses, made now or before."""

    def make() -> Any:
        if len(_ready) >= READY:
            _ready.clear()
        # Of a pattern that lives on the GPU there is nothing to be known here.
        host = None if pattern.on_device else pattern._native
        return _native.Ready(loaded, sparse, host, shapes, list(further), second)

    return cached(_ready, (loaded, sparse, shapes, further, second), make)


def has_kernel(index: int, pattern: Pattern, facts: str, n: int, epilogue: str) -> bool:
    """Whether a kernel with this epilogue can be planned."""
    key = (index, pattern.block, pattern.on_device, facts, epilogue)
    if key not in _without:
        try:
            kernel_of(index, pattern, facts, n, epilogue)
        except Error:
            _without.add(key)
    return key not in _without


def forget_pattern(key: str) -> None:
    """Drops the caches of a pattern on a device that no longer exists."""
    with _lock:
        gone = {_sparse.pop(of) for of in [of for of in _sparse if of[1] == key]}
        for of in [of for of in _ready if of[1] in gone]:
            del _ready[of]
        for cached, at in ((_loaded, 1), (_layers, 0)):
            for of in [of for of in cached if of[at] == key]:
                del cached[of]
        for cached in further_caches:
            for of in [of for of in cached if key in of]:
                del cached[of]


def forget_mask(key: str) -> None:
    """Drops the caches of a mask on a device that no longer exists."""
    for forget in on_forget:
        forget(key)


class OnDevice:
    """The device of a tensor, where it is not the current one."""

    def __init__(self, index: int) -> None:
        refuse_fork()
        self.guard = None if torch.cuda.current_device() == index else torch.cuda.device(index)

    def __enter__(self) -> None:
        if self.guard is not None:
            self.guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.guard is not None:
            self.guard.__exit__(*error)
