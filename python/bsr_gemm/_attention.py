"""Block-sparse attention for PyTorch: what a call is, brought to one form."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _arrays, _native
from ._kernels import Kernel, Simulation
from ._masks import CAUSAL, AttentionMask, find
from ._native import Error
from ._score import score_of

#: Orders of dimensions, by which each of problems, heads, rows and columns is.
LAYOUTS = ("bhsd", "bshd")


def attention(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any = None,
    *,
    causal: bool = False,
    score: str | None = None,
    numbers: Mapping[str, Any] | Sequence[float] = (),
    scale: float | None = None,
    lse: bool = False,
    layout: str = "bhsd",
    block: tuple[int, int] = (128, 128),
    split: str | int | None = None,
) -> Any:
    """``softmax(scale * q k^T) v``, where ``q k^T`` is computed in the blocks of a mask alone.

    ``q`` is problems x heads x queries x columns (``layout="bshd"``: problems x queries x heads x columns); ``k`` and ``v`` have
    as many heads or fewer, each of which serves neighbouring heads of ``q``; ``v`` may have other columns. ``pattern`` is an :class:`AttentionMask`, a
    :class:`DeviceMask` or FlexAttention's ``BlockMask``; without one every block of ``block`` is computed.

    ``score`` is the score of a query and a key in partial blocks, in the language of epilogues:
    ``"if i >= j { s * scale } else { -inf }"``, or a closure with numbers of the launch, ``"|slope: f32| s * scale - slope * j"``,
    which ``numbers`` gives. They may be vectors, too: ``"|slopes: Heads<f32>| .."`` has an element for each head, ``Rows`` for each
    query, ``Cols`` for each key; with dimensions for problems and heads before it where those differ (problems x elements, or
    problems x heads x elements, where 1 stands for all). Nothing is differentiated by numbers and vectors. A score that is more than a mask of pairs is computed in every block. ``causal=True`` leaves out
    keys behind the query, in any pattern of whole blocks. ``scale`` is 1 / sqrt(columns) unless it is given.

    ``split`` has several CTAs of a GPU share the keys of long tiles, which few queries or heads leave it: ``"auto"``, or 2 to 16.
    On the CPU, and with a mask on a GPU, nothing is divided.

    A query without any key has zeros. With ``lse`` the result is a pair of it and the natural logarithm of each query's sum of
    exponentials, problems x heads x queries.
    """
    # First of all: PyTorch's compiler is told there which functions are constants.
    from . import _attention_torch

    call = Call.of(q, k, v, pattern, causal, score, numbers, scale, layout, block)
    return _attention_torch.attention(call, lse, _split(split))


def simulate_attention(
    q: Any,
    k: Any,
    v: Any,
    pattern: Any = None,
    *,
    causal: bool = False,
    score: str | None = None,
    numbers: Mapping[str, Any] | Sequence[float] = (),
    scale: float | None = None,
    layout: str = "bhsd",
    block: tuple[int, int] = (128, 128),
    split: str | int | None = None,
    seed: int = 0,
) -> Simulation:
    """Runs the PTX of :func:`attention`'s kernel on the CPU, instruction by instruction, and looks for its defects.

    The tensors are on the CPU, of f16 or bf16, and small. The second result are the logarithms of the sums of exponentials.
    """
    import torch

    call = Call.of(q, k, v, pattern, causal, score, numbers, scale, layout, block)
    mask = find(call.key)
    kernel = Kernel(spec_of(mask.block, (q.shape[-1], v.shape[-1]), _arrays.kind_of(q), call.closure, _split(split)))
    tensors = [described(tensor) for tensor in (call.q, call.k, call.v)]
    vectors = [described_vector(vector) for vector in call.vectors]
    data, sums, findings, cost = _native.simulate_attention(
        kernel._native, mask._native, tensors, call.scale, list(call.numbers), vectors, seed
    )
    shape = (*call.q.shape[:3], call.v.shape[3])
    out = torch.frombuffer(bytearray(data), dtype=call.q.dtype).reshape(shape) if data else call.q.new_zeros(shape)
    rows = np.array(sums, dtype=np.float32).reshape(tuple(call.q.shape[:3]))
    return Simulation(call.as_given(out), rows, findings, *cost)


def described(tensor: Any) -> tuple[int, str, list[int], list[int]]:
    """A tensor of four dimensions as the native half takes it."""
    return tensor.data_ptr(), _arrays.kind_of(tensor), list(tensor.shape), list(tensor.stride())


def described_vector(vector: Any) -> tuple[int, str, list[int], list[int]]:
    """A vector of a score, problems x heads x elements, as the native half takes it."""
    return vector.data_ptr(), _arrays.kind_of(vector), list(vector.shape), list(vector.stride())


class Call:
    """A call of attention: tensors of problems x heads x rows x columns, the key of a mask, the closure of a score where any
    block needs it."""

    __slots__ = ("closure", "k", "key", "layout", "numbers", "on_device", "q", "scale", "v", "vectors")

    closure: str | None
    key: str
    layout: str
    numbers: tuple[float, ...]
    on_device: bool
    scale: float
    q: Any
    k: Any
    v: Any
    vectors: list[Any]

    @classmethod
    def of(
        cls,
        q: Any,
        k: Any,
        v: Any,
        pattern: Any,
        causal: bool,
        score: str | None,
        numbers: Mapping[str, Any] | Sequence[float],
        scale: float | None,
        layout: str,
        block: tuple[int, int],
    ) -> Call:
        call = object.__new__(cls)
        if layout not in LAYOUTS:
            raise Error(f"layout = {layout!r}\n  help: use one of {', '.join(LAYOUTS)}")
        call.layout = layout
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            if not _arrays.is_tensor(tensor) or tensor.dim() != 4:
                found = f"{tensor.dim()} dimensions" if _arrays.is_tensor(tensor) else f"a {type(tensor).__name__}"
                raise Error(f"{name} is {found}\n  help: a tensor of PyTorch with four dimensions, {layout}")
        call.q, call.k, call.v = (q, k, v) if layout == "bhsd" else (x.transpose(1, 2) for x in (q, k, v))
        if pattern is None:
            key, own = whole(call.q.shape[2], call.k.shape[2], block[0], block[1], causal)
            causal, call.on_device = False, False
        else:
            if hasattr(pattern, "kv_num_blocks") and hasattr(pattern, "BLOCK_SIZE"):
                pattern = _of_block_mask(pattern)
            key, own = _key_of(pattern), pattern.score
            call.on_device = pattern.on_device
        vectors: dict[str, Any] = {}
        if isinstance(numbers, Mapping):
            vectors = {name: value for name, value in numbers.items() if _arrays.is_tensor(value)}
            given: tuple = tuple((name, value) for name, value in numbers.items() if name not in vectors)
        else:
            given = tuple(numbers)
        names = tuple(vectors)
        call.closure, call.key, call.numbers, parameters = resolved(key, own, causal, score, given, names)
        call.vectors = [_vector(parameter, vectors[parameter[0]], call) for parameter in parameters]
        call.scale = 1.0 / math.sqrt(max(1, call.q.shape[-1])) if scale is None else float(scale)
        return call

    def as_given(self, out: Any) -> Any:
        """A result in the order of the caller's dimensions."""
        return out if self.layout == "bhsd" else out.transpose(1, 2)


#: Numbers as a spec has them: PyTorch's compiler, for which an argument may be any number, takes them by their place.
_NUMBERS = tuple(str(number) for number in range(17))


def _split(split: str | int | None) -> str | None:
    """Into how many parts the keys of a tile are divided, as a spec says it."""
    if split is None or split == "auto":
        return split
    if type(split) is int and 2 <= split <= 16:
        return _NUMBERS[split]
    raise Error(f"split = {split!r}\n  help: 'auto', a number from 2 to 16, or None")


def spec_of(
    block: tuple[int, int], columns: tuple[int, int], kind: str, closure: str | None, split: str | None = None
) -> str:
    """The spec of an attention with blocks of this size; ``columns`` are those of Q and K, and those of V."""
    if kind not in ("f16", "bf16"):
        raise Error(
            f"a kernel of attention computes f16 and bf16, not {kind}\n"
            "  help: convert q, k and v, or run under `torch.autocast('cuda', torch.bfloat16)`"
        )
    score = "" if closure is None else f', score = "{closure}"'
    depth = "" if columns[0] == columns[1] else f", d = {columns[0]}"
    parts = "" if split is None else f", split = {split}"
    return f"op = attention, bm = {block[0]}, bn = {columns[1]}, bk = {block[1]}, dtype = {kind}{depth}{parts}{score}"


def _vector(parameter: tuple[str, str, str], vector: Any, call: Call) -> Any:
    """A vector of a score as problems x heads x elements, of the type that the score reads."""
    name, kind, element = parameter
    (problems, heads, queries, _), keys = call.q.shape, call.k.shape[2]
    if vector.requires_grad:
        raise Error(f"`{name}` wants a gradient, and a score's vectors have none\n  help: `{name}.detach()`")
    shape = tuple(vector.shape)
    if kind == "Heads":
        elements, seen = 1, (*(1,) * (2 - len(shape)), *shape, 1)
    else:
        elements = queries if kind == "Rows" else keys
        seen = (shape[0], 1, shape[1]) if len(shape) == 2 else (*(1,) * (3 - len(shape)), *shape)
    fits = len(seen) == 3 and seen[0] in (1, problems) and seen[1] in (1, heads) and seen[2] == elements
    if not fits or vector.device != call.q.device:
        words = (
            "heads, or problems x heads" if kind == "Heads" else "elements, problems x them, or problems x heads x them"
        )
        raise Error(
            f"`{name}` is {' x '.join(map(str, shape))} on {vector.device}, a {kind} of {problems} problems, {heads} heads, "
            f"{queries} queries and {keys} keys on {call.q.device}\n  help: {words}; 1 stands for all"
        )
    return vector.reshape(seen).to(_arrays.torch_dtype(element)).contiguous()


#: Masks that calls without a pattern have.
_whole: dict[tuple, AttentionMask] = {}


# PyTorch's compiler takes the results of these two as constants.


def whole(queries: int, keys: int, bm: int, bk: int, causal: bool) -> tuple[str, str | None]:
    """The key and the score of the mask of every block, or of those up to the diagonal."""
    key = (queries, keys, bm, bk, causal)
    mask = _whole.get(key)
    if mask is None:
        mask = (AttentionMask.causal if causal else AttentionMask.full)((queries, keys), (bm, bk))
        if len(_whole) >= 256:
            _whole.clear()
        _whole[key] = mask
    return mask.key, mask.score


def resolved(
    key: str, own: str | None, causal: bool, score: str | None, numbers: tuple, vectors: tuple[str, ...]
) -> tuple[str | None, str, tuple[float, ...], tuple]:
    """The closure of the score where any block needs it, the key of the mask with what is partial under it, its numbers, and
    its parameters that are vectors.

    ``own`` is the score that the mask has; numbers are values in the order of the score's parameters, or names with values;
    ``vectors`` are the names of those that are given.
    """
    mask: Any = find(key)
    if not mask.on_device:
        return _resolved(key, own, causal, score, numbers, vectors)[0]
    # What is kept of a mask that is tensors is kept as long as it.
    calls, call = mask.calls, (own, causal, score, numbers, vectors)
    found = calls.get(call)
    if found is None:
        if len(calls) >= 256:
            calls.clear()
        found = calls[call] = _of_mask(mask, *call)[0]
    return found


@functools.lru_cache(maxsize=4096)
def _resolved(
    key: str, own: str | None, causal: bool, score: str | None, numbers: tuple, vectors: tuple[str, ...]
) -> tuple[tuple, AttentionMask]:
    return _of_mask(find(key), own, causal, score, numbers, vectors)


def _of_mask(
    mask: Any, own: str | None, causal: bool, score: str | None, numbers: tuple, vectors: tuple[str, ...]
) -> tuple[tuple, Any]:
    if causal and (score is not None or own is not None):
        raise Error(
            f"`causal=True` and a score are given, or the mask has a score of its own\n"
            f"  help: write both conditions into one score: `{CAUSAL}`"
        )
    if causal:
        mask, own = mask.below_diagonal(), CAUSAL
    text = score if score is not None else own
    if text is None:
        if mask.has_partial:
            some = "some" if mask.on_device else f"{mask.partial_blocks} of {mask.stored}"
            raise Error(
                f"{some} blocks are partial, and no score tells their pairs apart\n"
                f"  help: give the condition as a score, `{CAUSAL}` for instance"
            )
        if numbers or vectors:
            raise Error("numbers are given, and there is no score that takes them")
        return (None, mask.key, (), ()), mask
    read = score_of(text)
    if not read.is_mask or (score is not None and not mask.has_partial):
        mask = mask.scored()
    given = _numbers(read, numbers)
    wanted = [name for name, *_ in read.vectors]
    if sorted(wanted) != sorted(vectors):
        raise Error(
            f"the score takes the vectors {', '.join(wanted) or '(none)'}, and {', '.join(vectors) or 'none'} are given\n"
            "  help: `numbers={'name': tensor}`"
        )
    if not mask.has_partial:
        return (None, mask.key, (), ()), mask
    return (read.closure, mask.key, given, read.vectors), mask


def _key_of(pattern: Any) -> str:
    if isinstance(pattern, AttentionMask):
        return pattern.key
    from ._device_masks import DeviceMask

    if isinstance(pattern, DeviceMask):
        return pattern.key
    raise Error(
        f"the pattern is a {type(pattern).__name__}, not an AttentionMask or DeviceMask\n  help: "
        "`bsr_gemm.AttentionMask.from_blocks`, `.from_pairs`, `.from_block_mask`, `.causal`, `.window` and others make one"
    )


def _of_block_mask(block_mask: Any) -> AttentionMask:
    """The mask of FlexAttention's, which keeps it: its lists are copied to the host once."""
    made = getattr(block_mask, "_bsr_gemm_mask", None)
    if made is None:
        made = AttentionMask.from_block_mask(block_mask)
        block_mask._bsr_gemm_mask = made
    return made


def _numbers(score: Any, numbers: tuple) -> tuple[float, ...]:
    if not any(isinstance(number, tuple) for number in numbers):
        return tuple(float(number) for number in numbers)
    if score.tree is None:
        raise Error(
            f"the score `{score.closure}` was not read: {score.why}\n  help: give the numbers in the order of its parameters"
        )
    given = dict(numbers)
    if set(given) != set(score.numbers):
        raise Error(f"the score takes {', '.join(score.numbers) or 'no numbers'}, and {', '.join(given)} are given")
    return tuple(float(given[name]) for name in score.numbers)
