"""Attention whose keys and values are in pages, as servers of models keep them."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from . import _arrays, _attention_float8, _attention_launch, _gpu, _native, _sinks
from ._attention_choice import FEW, ROWS, WIDEST
from ._calls import LAYOUTS, Layout, capped, divided, keys_of, spec_of
from ._float8_pages import ValuePages
from ._float8_values import KIND
from ._launch import _stream
from ._native import Error
from ._results import Base, Results

#: Orders of the dimensions of a page: its keys, heads and columns.
KvLayout = Literal["HND", "NHD"]
#: Keys of a block of the kernels, of which a step has as many as fit.
_KEYS = 128
#: Each query sees the keys up to its own, which are the last ones of its problem.
_CAUSAL = "|last: Rows<f32>| if j <= last {{ {} }} else {{ -inf }}"

_numbers = itertools.count()
#: Launches by what a call is, and work by kernel, table and shapes.
_ready: dict[tuple, Any] = {}
_work: dict[tuple, Any] = {}
_gpu.further_caches.extend([_ready, _work])


class PageTable:
    """The pages of each problem in the order of its keys, and the keys of each problem: ``table``, problems x entries, and
    ``lengths``, both int32 and contiguous.

    A program that has written into the tensors calls :meth:`changed`; the next attention checks them and divides its work by the
    lengths, in kernels of its own, and attentions after that, of other layers, use the same lists. A problem of a length or with a
    page that does not exist has no keys, and :meth:`check` tells what is wrong. On a GPU nothing but ``check`` synchronizes.
    """

    __slots__ = ("__weakref__", "_views", "key", "lengths", "table")

    def __init__(self, table: Tensor, lengths: Tensor) -> None:
        for name, tensor, dims in (("table", table, 2), ("lengths", lengths, 1)):
            fits = _arrays.is_tensor(tensor) and tensor.dtype == torch.int32 and tensor.dim() == dims
            if not fits or not tensor.is_contiguous():
                found = (
                    f"{list(tensor.shape)} of {tensor.dtype}" if _arrays.is_tensor(tensor) else type(tensor).__name__
                )
                raise Error(f"{name} is {found}\n  help: a contiguous tensor of int32 with {dims} dimension(s)")
        if len(table) != len(lengths) or table.device != lengths.device or table.shape[1] == 0:
            raise Error(
                f"the table is {list(table.shape)} on {table.device} and there are {len(lengths)} lengths on {lengths.device}\n"
                "  help: a row of entries and a length for each problem, on one device"
            )
        self.table, self.lengths = table, lengths
        self.key = f"page-table:{next(_numbers)}"
        self._views: dict[tuple[int, int], Any] = {}

    def changed(self) -> None:
        """Says that the tensors have changed, or will have when the next attention runs."""
        for view in self._views.values():
            view.changed()

    def check(self) -> None:
        """Waits for the GPU, and raises what the attentions so far have found to be wrong, once."""
        for view in self._views.values():
            view.check()

    def on_gpu(self, pages: int, page: int) -> Any:
        """The view of the tensors that kernels read, for so many pages of so many keys."""
        view = self._views.get((pages, page))
        if view is None:
            shape = [*self.table.shape, pages, page]
            gpu = _gpu.gpu_of(self.table.device.index)
            view = _native.DevicePages(gpu, shape, self.table.data_ptr(), self.lengths.data_ptr())
            if not self._views:
                weakref.finalize(self, _forget, self.key)
            self._views[pages, page] = view
        return view

    def rows(self, pages: int, page: int) -> list[list[int]]:
        """The pages of each problem that have keys, and its keys last, from tensors on the CPU; an error where any does not exist."""
        width, rows = self.table.shape[1], []
        for number, (entries, length) in enumerate(zip(self.table.tolist(), self.lengths.tolist())):
            if not 0 <= length <= width * page:
                raise Error(
                    f"problem {number} has {length} keys\n"
                    f"  its row of {width} pages of {page} keys has room for 0 to {width * page}\n"
                    "  help: a page table with more entries for each problem"
                )
            used = entries[: -(-length // page)]
            wrong = next((entry for entry in used if not 0 <= entry < pages), None)
            if wrong is not None:
                raise Error(
                    f"problem {number} has keys in page {wrong}, and the pages are 0 to {pages - 1}\n"
                    "  help: entries of the table count pages, not keys"
                )
            rows.append([*used, length])
        return rows

    def __repr__(self) -> str:
        problems, width = self.table.shape
        return f"PageTable({problems} problems of up to {width} pages, on {self.table.device})"


def paged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor | ValuePages,
    pages: PageTable,
    *,
    causal: bool = False,
    softcap: float | None = None,
    scale: float | None = None,
    sinks: Tensor | None = None,
    lse: bool | Tensor = False,
    layout: Layout = "bhsd",
    kv_layout: KvLayout = "HND",
    scales: Sequence[Any] | None = None,
    pdl: bool = False,
    out: Tensor | None = None,
    lse_base: Base = "e",
) -> Any:
    """``softmax(scale * q k^T) v`` of problems of different lengths, whose keys and values are in the pages of a cache.

    ``q`` is problems x heads x queries x columns (``layout="bshd"``: problems x queries x heads x columns). ``k`` and ``v`` are
    pages x heads x keys of a page x columns, or with ``kv_layout="NHD"`` pages x keys of a page x heads x columns, of 16 to 256
    keys a page; a head of them serves neighbouring heads of ``q``. ``pages`` is a :class:`PageTable`.

    With ``causal`` the queries of a problem are its last tokens, and each sees the keys up to its own. ``softcap``, ``sinks``,
    ``lse``, ``lse_base``, ``pdl`` and ``out`` are those of :func:`attention`. There is no gradient.

    ``q`` and ``k`` may be of ``float8_e4m3fn``. ``v`` is then a :class:`ValuePages`, whose order is that of kernels, the result is in bfloat16,
    and ``scales`` are factors of ``q``, ``k`` and ``v`` as in :func:`attention`: numbers, or tensors of float32 for each head of ``k``, or for
    problems x heads of ``k``.
    """
    if layout not in LAYOUTS or kv_layout not in ("HND", "NHD"):
        raise Error(f"layout = {layout!r}, kv_layout = {kv_layout!r}\n  help: bhsd or bshd, HND or NHD")
    if not isinstance(pages, PageTable):
        raise Error(f"pages is a {type(pages).__name__}\n  help: a `PageTable`")
    q, out = (x.transpose(1, 2) if layout == "bshd" and x is not None else x for x in (q, out))
    k, v = (x.transpose(1, 2) if kv_layout == "NHD" and not isinstance(x, ValuePages) else x for x in (k, v))
    _check(q, k, v, pages)
    results, sinks = Results(out, lse, lse_base), _sinks.read(sinks, q)
    # O has the sizes of Q, and another type where that has 8 bits.
    results.check(q.new_empty(1, dtype=_type_of_result(q)).expand(q.shape), v, is_plain=True)
    factors = _factors(scales, q, k)
    score, spec_keys = capped(None, softcap), keys_of(None, pdl)
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    run = _on_gpu if _attention_float8.is_on_gpu(q) else _on_cpu
    # One query sees every key.
    found, sums = run(q, k, v, pages, causal and q.shape[2] > 1, score, scale, sinks, results, factors, spec_keys)
    found, sums = results.written(found, sums, is_plain=True)
    found = found.transpose(1, 2) if layout == "bshd" else found
    return (found, sums) if results.wants_sums else found


def _check(q: Tensor, k: Tensor, v: Tensor, pages: PageTable) -> None:
    words = f"q is {list(q.shape)}, k is {list(k.shape)} and v is {list(v.shape)}"
    fits = q.dim() == k.dim() == len(v.shape) == 4 and k.shape[:3] == v.shape[:3] and k.shape[3] == q.shape[3]
    if not fits or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise Error(
            f"{words}\n  problems x heads x queries x columns, and pages x heads x keys x columns twice\n"
            "  help: k and v of one shape but for the columns of v, with the columns of q and a number of heads that divides its own"
        )
    if len(q) != len(pages.table) or {q.device, k.device, v.device} != {pages.table.device}:
        raise Error(
            f"{words} on {q.device}, {k.device} and {v.device}; the page table is of {len(pages.table)} problems on "
            f"{pages.table.device}\n  help: a row of the table for each problem of q, on one device"
        )
    if q.dtype != k.dtype or q.dtype != v.dtype:
        help = "convert them"
        if KIND in (q.dtype, k.dtype, v.dtype):
            help = f"all of {KIND}: `(x / scale).to({KIND})` with `scales`"
        raise Error(f"q is of {q.dtype}, k of {k.dtype} and v of {v.dtype}\n  help: {help}")
    if q.dtype is KIND and not isinstance(v, ValuePages):
        raise Error(
            f"v is a tensor of {v.dtype}\n"
            "  WGMMA reads 8-bit operands along the sum alone, which is over keys: pages of V are heads x columns x keys\n"
            f"  help: `ValuePages(v)` once, whose `write` takes new keys; a copy of all pages in each call would cost more than the attention"
        )
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in (q, k, v)):
        raise Error("an attention in pages has no gradient\n  help: `torch.no_grad()`, or `attention`")


def _type_of_result(q: Tensor) -> torch.dtype:
    return torch.bfloat16 if q.dtype is KIND else q.dtype


def _factors(scales: Any, q: Tensor, k: Tensor) -> list[Tensor] | None:
    """The factors of Q, K and V, where there are any."""
    if scales is None:
        return None
    if q.dtype is not KIND:
        raise Error(f"scales are given, and q, k and v are of {q.dtype}\n  help: {KIND}, or no scales")
    if _attention_float8.are_of_blocks(scales):
        raise Error(
            "scales of blocks are given\n  they are those of the keys of a problem in their order, which a page table changes\n"
            "  help: one number, or one for each head of k"
        )
    return _attention_float8.factors_of(scales, q, k)


def _on_cpu(q, k, v, pages, causal, score, scale, sinks, results, factors, spec_keys) -> tuple[Tensor, Tensor]:
    from ._attention import attention

    (problems, heads, queries, _), page = q.shape, k.shape[2]
    out = q.new_empty(problems, heads, queries, v.shape[3], dtype=_type_of_result(q))
    v = v.to_rows() if isinstance(v, ValuePages) else v
    sums = q.new_empty(problems, heads, queries, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    for number, (*used, length) in enumerate(pages.rows(len(k), page)):
        # Pages side by side: heads x keys x columns.
        tensors = [q[number : number + 1]]
        tensors += [x[used].transpose(0, 1).flatten(1, 2)[None, :, :length] for x in (k, v)]
        if q.dtype is KIND:
            of_problem = [f if f is None or f.ndim < 2 else f[number : number + 1] for f in factors or [None] * 3]
            tensors = [_attention_float8.dequantised(x, f, k.shape[1]) for x, f in zip(tensors, of_problem)]
        how = {"mask": "|before: f32| j <= i + before", "numbers": {"before": length - queries}} if causal else {}
        part, lse = attention(*tensors, score=score, scale=scale, sinks=sinks, lse=True, **how)
        out[number], sums[number] = part[0], lse[0]
    return out, sums


def _specs(
    q: Tensor, k: Tensor, v: Any, closure: str | None, spec_keys: str | None, has_sinks: bool, factors: str | None
) -> list[str]:
    """Specs by preference, of which the first one that is planned is launched."""
    queries, group, columns = q.shape[2], q.shape[1] // k.shape[1], (q.shape[3], v.shape[3])

    def spec(spec_keys: str | None, heads: int) -> str:
        block, how = (64 if queries <= FEW else 128, _KEYS), (closure, spec_keys, heads, has_sinks, k.shape[2])
        if q.dtype is KIND:
            return _attention_float8.in_float8(spec_of(block, columns, "bf16", *how), factors)
        return spec_of(block, columns, _arrays.kind_of(q), *how)

    heads = min(group & -group, max(1, ROWS // max(1, queries)))
    heads = 1 << heads.bit_length() - 1 if queries <= FEW else 1
    shared = divided(spec_keys) if v.shape[3] <= WIDEST else spec_keys
    return list(dict.fromkeys([spec(shared, heads), spec(shared, 1), spec(spec_keys, 1)]))


def _on_gpu(q, k, v, pages, causal, score, scale, sinks, results, factors, spec_keys) -> tuple[Tensor, Tensor]:
    _gpu.refuse_fork()
    kind = _type_of_result(q)
    out = torch.empty_like(q, dtype=kind)
    out = out if q.shape[3] == v.shape[3] else q.new_empty(*q.shape[:3], v.shape[3], dtype=kind)
    out = out if results.out is None else results.out
    sums = results.sums if results.sums is not None and results.sums.is_contiguous() else None
    if sums is None:
        sums = q.new_empty(q.shape[:3] if results.wants_sums else (0,), dtype=torch.float32)
    if out.numel() == 0:
        return out, sums
    of_v = v.data if isinstance(v, ValuePages) else v
    for name, tensor in (("k", k), ("v", of_v)):
        size = tensor.element_size()
        if tensor.stride(3) != 1 or tensor.data_ptr() % 16 or any(step * size % 16 for step in tensor.stride()[:3]):
            raise Error(
                f"{name} has strides of {list(tensor.stride())} elements and begins at {tensor.data_ptr():#x}\n"
                "  TMA reads pages whose rows are contiguous, at multiples of 16 bytes\n"
                f"  help: a contiguous cache, of columns that are a multiple of {16 // size}"
            )
    operands = [_attention_launch._addressable(q), k, of_v, _attention_launch._addressable(out)]
    vectors = []
    if causal:
        queries = torch.arange(q.shape[2], dtype=torch.float32, device=q.device) - q.shape[2]
        vectors = [(pages.lengths[:, None] + queries)[:, None]]
        score = _CAUSAL.format(score or "s * scale")
    elif score is not None:
        score = f"|| {score}"
    further = [*vectors, *([] if sinks is None else [sinks]), *(factor.reshape(-1) for factor in factors or ())]
    counts = None if factors is None else [factor.numel() for factor in factors]
    of_spec = (score, spec_keys, sinks is not None, _attention_float8.scale_word(factors))
    layouts = _attention_launch._layouts(operands)
    key = (pages.key, q.dtype, str(layouts), scale, *of_spec, str(counts))
    with _gpu.OnDevice(q.device.index):

        def make() -> Any:
            loaded = _attention_launch._kernel(q.device.index, _specs(q, k, v, *of_spec))
            shapes = tuple(q.shape), tuple(v.shape)
            view = pages.on_gpu(len(k), k.shape[2])
            work = _gpu.cached(_work, (pages.key, loaded, *shapes), lambda: loaded.paged(view, *map(list, shapes)))
            extents = [_attention_launch._extent(vector) for vector in vectors]
            return _native.ReadyAttention(loaded, work, layouts, scale, [], extents, counts).launch

        launch = _gpu.cached(_ready, key, make)
        places = [tensor.data_ptr() for tensor in operands]
        places += [sums.data_ptr() if results.wants_sums else 0, _stream(q.device.index)]
        launch(*places, *(tensor.data_ptr() for tensor in further))
    return (out.copy_(operands[3]) if operands[3] is not out else out), sums


def _forget(key: str) -> None:
    """Forgets what is kept of a page table that is gone."""
    with _gpu._lock:
        for cache in (_ready, _work):
            for of in [of for of in cache if of[0] == key]:
                del cache[of]
