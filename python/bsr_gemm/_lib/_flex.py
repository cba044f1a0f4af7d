"""FlexAttention's call: its functions are traced, and become a condition and a score."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _arrays, _calls, _gpu
from ._attention import attention
from ._captured import Unknown, captured
from ._conditions import Condition, _text
from ._exact import exact
from ._masks import AttentionMask, find
from ._native import Error
from ._score import Tree
from ._traced import Trace
from ._traced_words import TRUE

#: The most vectors of a kernel.
MOST = 8
#: The most pairs of functions of which it is kept what they compute.
KEPT = 256


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """``torch.nn.attention.flex_attention.flex_attention`` by the kernels of :func:`attention`.

    ``score_mod(score, b, h, q_idx, kv_idx)`` and the ``mask_mod`` of a ``BlockMask`` are called with values that record what is
    computed of them: once, and again when what they read besides their arguments has changed. What depends on queries or on
    keys alone, beside ``b`` and ``h``, is computed by PyTorch as a vector, with its gradient; the rest becomes text of the
    language of scores. What has no word there is refused.

    ``kernel_options`` are those of another kernel, and are not read.
    """
    _check(query, key, value, enable_gqa)
    if return_aux is not None and getattr(return_aux, "max_scores", False):
        raise Error("the greatest score of each query is not stored\n  help: `AuxRequest(lse=True)`")
    if key.shape[0] == 1 != query.shape[0]:
        key, value = (tensor.expand(query.shape[0], -1, -1, -1) for tensor in (key, value))
    wants_lse = return_lse or bool(return_aux is not None and return_aux.lse)
    if _arrays.in_graph():
        from . import _flex_graph

        attend = _flex_graph.attend
    else:
        attend = _attend
    found = attend(query, key, value, score_mod, block_mask, scale, wants_lse)
    if return_aux is None:
        return found
    from torch.nn.attention.flex_attention import AuxOutput

    return (found[0], AuxOutput(lse=found[1])) if wants_lse else (found, AuxOutput())


@torch.compiler.disable
def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None,
    block_mask: Any,
    scale: float | None,
    wants_lse: bool,
) -> Any:
    blocks = None if block_mask is None else _calls._of_block_mask(block_mask)
    mask_mod = None if blocks is None or not blocks.has_partial else block_mask.mask_mod
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    score, condition, vectors = _said(score_mod, mask_mod, (*query.shape[:3], key.shape[2]), query.device, kind)
    pattern = None if blocks is None else _with_condition(blocks.key, condition, score is not None)
    return attention(query, key, value, pattern, score=score, numbers=vectors, scale=scale, lse=wants_lse)


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _arrays.check_dimensions(name, tensor, "problems x heads x rows x columns")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise Error(f"{query.shape[1]} heads of the query, and {key.shape[1]} of the key\n  help: `enable_gqa=True`")


#: A score, a condition, and the vectors that they read.
Said = tuple[str | None, str | None, dict[str, Tensor]]

#: What functions were found to compute, by what they read, with the tensors among it.
_known: dict[tuple, tuple[list, Said]] = {}
_gpu.further_caches.append(_known)


def _said(
    score_mod: Callable | None, mask_mod: Callable | None, sizes: Any, device: torch.device, kind: torch.dtype
) -> Said:
    """What the functions compute, found now or before on this stream. A CUDA graph computes the vectors in every replay."""
    how, stream = (sizes, device, kind), None
    if device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return _trace(score_mod, mask_mod, *how)
        stream = torch.cuda.current_stream(device).cuda_stream
    try:
        read, tensors = captured((score_mod, mask_mod))
    except Unknown:
        return _trace(score_mod, mask_mod, *how)
    key = (read, *how, stream, torch.get_default_dtype(), torch.is_inference_mode_enabled())
    with _gpu._lock:
        known = _known.get(key)
    # Another tensor may have the identity of one that is gone.
    if known is not None and all(tensor() is not None for tensor in known[0]):
        return known[1]
    said = _trace(score_mod, mask_mod, *how)
    with _gpu._lock:
        if len(_known) >= KEPT:
            _known.clear()
        _known[key] = tensors, said
    return said


def _trace(
    score_mod: Callable | None,
    mask_mod: Callable | None,
    sizes: Any,
    device: torch.device,
    kind: torch.dtype,
    in_graph: bool = False,
) -> Said:
    trace = Trace(sizes, device, in_graph)
    score = None if score_mod is None else _closure(trace, _text(trace.score(score_mod, kind)))
    tree = TRUE if mask_mod is None else trace.condition(mask_mod)
    condition = None if tree == TRUE else _condition(trace, tree)
    texts = " ".join(filter(None, (score, condition)))
    vectors = {name: vector for name, vector in trace.vectors.items() if f"{name}:" in texts}
    if not in_graph:
        # As kernels read them, so that no call converts them again.
        vectors = {name: exact(vector, torch.float32) for name, vector in vectors.items()}
    if len(vectors) > MOST:
        raise Error(
            f"the functions read {len(vectors)} vectors: {', '.join(vectors)}; a kernel has up to {MOST}\n"
            "  help: compute more of each index before the query and the key meet, or capture fewer tensors"
        )
    return score, condition, vectors


def _closure(trace: Trace, body: str) -> str:
    """A closure with the vectors that its body reads."""
    read = [f"{name}: {kind}<f32>" for name, kind in trace.parameters.items() if name in _names_in(body)]
    return f"|{', '.join(read)}| {body}" if read else body


def _names_in(body: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", body))


@functools.lru_cache(maxsize=256)
def _with_condition(key: str, condition: str | None, is_scored: bool) -> AttentionMask:
    """A mask with a condition in its partial blocks; with a score in all of them, for it is computed in every block, and the
    condition holds in whole ones."""
    blocks = find(key, (0, 0))
    kinds = blocks.blocks()
    kinds = kinds.clip(max=1) if condition is None else (2 * kinds).clip(max=2) if is_scored else kinds
    return AttentionMask._of_blocks(blocks.sizes, blocks.block, kinds, blocks.per, condition)


def _condition(trace: Trace, tree: Tree) -> str:
    names = _names_in(text := Condition((), tree).text)
    read = tuple((name, kind, "f32") for name, kind in trace.parameters.items() if name in names)
    return Condition(read, tree).text if read else text
