"""A call of attention brought to one form: tensors, the key of a mask, the closure of a score."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from . import _arrays, _combined
from ._conditions import CAUSAL, Condition, by_head, closure_of, condition_of, of_score, parameters_of
from ._masks import AttentionMask, every, find
from ._native import Error
from ._score import Score, score_of

#: Orders of dimensions, by which each of problems, heads, rows and columns is.
Layout = Literal["bhsd", "bshd"]
LAYOUTS: tuple[str, ...] = get_args(Layout)


def described(tensor: Any) -> tuple[int, str, list[int], list[int]]:
    """A tensor of four dimensions, or a vector of a score, as the native half takes it."""
    return tensor.data_ptr(), _arrays.kind_of(tensor), list(tensor.shape), list(tensor.stride())


class Call:
    """A call of attention: tensors of problems x heads x rows x columns, the key of a mask, the closure of a score where any
    block needs it."""

    __slots__ = ("closure", "k", "key", "layout", "names", "numbers", "on_device", "q", "scale", "v", "vectors")

    closure: str | None
    key: str
    layout: str
    #: Of each vector the name, or the place, by which it is given.
    names: tuple[str | int, ...]
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
        how: tuple[bool, str | None, str | None],
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
            _arrays.check_dimensions(name, tensor, layout)
        call.q, call.k, call.v = (q, k, v) if layout == "bhsd" else (x.transpose(1, 2) for x in (q, k, v))
        causal, mask, score = how
        for name, text, such in (("mask", mask, CAUSAL), ("score", score, "s * scale - 0.1 * (i - j)")):
            if text is not None and not isinstance(text, str):
                raise Error(
                    f'{name} is a {type(text).__name__}, and it is read as text\n  help: {name}="{such}", for instance'
                )
        if pattern is None:
            key, call.on_device = every(block, None, False), False
        else:
            found = mask_of(pattern)
            key, call.on_device = found.key, found.on_device
        vectors: dict[str, Any] = {}
        by_name = isinstance(numbers, Mapping)
        if by_name:
            vectors = {name: value for name, value in numbers.items() if _arrays.is_tensor(value) and value.dim() > 0}
            scalars = {name: value for name, value in numbers.items() if name not in vectors}
        else:
            scalars = dict(enumerate(numbers))
        of_kernels = {name: _of_one(name, x, call.q) for name, x in scalars.items() if _is_of_kernels(x)}
        names = tuple(scalars) if by_name else len(scalars)
        how = (bool(causal), mask, score, names, tuple(vectors), tuple(of_kernels))
        call.closure, call.key, order, parameters = resolved(key, *how)
        call.numbers = tuple(float(scalars[name]) for name in order)
        given = vectors | of_kernels
        call.names = tuple(name for _, name in parameters)
        call.vectors = [_vector(parameter, given[name], call) for parameter, name in parameters]
        call.scale = 1.0 / math.sqrt(max(1, call.q.shape[-1])) if scale is None else float(scale)
        return call

    def in_order(self, out: Any) -> Any:
        """A tensor for the result as problems x heads x rows x columns; another one, and what is none, as it is."""
        is_result = self.layout == "bshd" and _arrays.is_tensor(out) and out.dim() == 4
        return out.transpose(1, 2) if is_result else out

    def as_given(self, out: Any) -> Any:
        """A result in the order of the caller's dimensions."""
        return out if self.layout == "bhsd" else out.transpose(1, 2)


#: Numbers as a spec has them: PyTorch's compiler, for which an argument may be any number, takes them by their place.
_NUMBERS = tuple(str(number) for number in range(17))


def keys_of(split: str | int | None, pdl: bool = False) -> str | None:
    """What a call says of its kernel, as keys of a spec: ``split = auto, pdl = on``; None where it says nothing."""
    if not isinstance(pdl, bool):
        raise Error(f"pdl = {pdl!r}\n  help: True, or False")
    if split is None:
        said = []
    elif split == "auto":
        said = ["split = auto"]
    elif type(split) is int and 2 <= split <= 16:
        said = ["split = " + _NUMBERS[split]]
    else:
        raise Error(f"split = {split!r}\n  help: 'auto', a number from 2 to 16, or None")
    if pdl:
        said.append("pdl = on")
    return ", ".join(said) if said else None


def says_split(spec_keys: str | None) -> bool:
    """Whether a call says how keys are divided."""
    return spec_keys is not None and "split" in spec_keys


def divided(spec_keys: str | None) -> str | None:
    """The same keys with ``split = auto`` where they do not say how keys are divided."""
    if says_split(spec_keys):
        return spec_keys
    return "split = auto" if spec_keys is None else f"split = auto, {spec_keys}"


def capped(score: str | None, softcap: float | None) -> str | None:
    """The score of a call, or that of a soft cap."""
    if softcap is None:
        return score
    if score is not None:
        raise Error(
            f"score and softcap = {softcap!r} are given\n"
            f"  softcap is the score `softcap * tanh(s * scale / softcap)`\n"
            "  help: write `tanh` into the score, or leave one of them out"
        )
    if isinstance(softcap, bool) or not isinstance(softcap, int | float) or not 0 < softcap < math.inf:
        raise Error(f"softcap = {softcap!r}\n  help: a positive number, 50.0 for instance")
    cap = repr(float(softcap))
    return f"{cap} * tanh(s * scale / {cap})"


def spec_of(
    block: tuple[int, int],
    columns: tuple[int, int],
    kind: str,
    closure: str | None,
    spec_keys: str | None = None,
    heads: int = 1,
    has_sinks: bool = False,
    page: int | None = None,
    consumers: int | None = None,
    cluster: int | None = None,
) -> str:
    """The spec of an attention with blocks of this size; ``columns`` are those of Q and K, and those of V, ``spec_keys`` what the call
    says itself, and so many ``heads`` of Q share a tile. Each head may have a sink, K and V may be in pages of so many keys, and a CTA may have so many
    ``consumers``. CTAs of a ``cluster`` share the keys of a tile."""
    if kind not in ("f16", "bf16"):
        raise Error(
            f"a kernel of attention computes f16 and bf16, not {kind}\n"
            "  help: convert q, k and v, or run under `torch.autocast('cuda', torch.bfloat16)`"
        )
    score = "" if closure is None else f', score = "{closure}"'
    depth = "" if columns[0] == columns[1] else f", d = {columns[0]}"
    parts = "" if spec_keys is None else f", {spec_keys}"
    parts += "" if heads == 1 else f", pack_heads = {heads}"
    parts += ", sinks = on" if has_sinks else ""
    parts += "" if page is None else f", page = {page}"
    parts += "" if consumers is None else f", consumers = {consumers}"
    parts += "" if cluster is None else f", cluster = {cluster}"
    return f"op = attention, bm = {block[0]}, bn = {columns[1]}, bk = {block[1]}, dtype = {kind}{depth}{parts}{score}"


def _is_of_kernels(number: Any) -> bool:
    """Whether kernels read a number from its tensor, as a vector by head with one element: the host does not know it, or it has a gradient."""
    return _arrays.is_tensor(number) and (number.requires_grad or number.is_cuda or _arrays.in_graph())


def _of_one(name: str | int, number: Any, q: Any) -> Any:
    """A tensor of one number beside ``q``."""
    if number.numel() != 1:
        raise Error(
            f"the number {name!r} of a score is {' x '.join(map(str, number.shape))}\n  help: a tensor of one number, or a parameter "
            "that is a vector: `|slope: Heads<f32>| ..`"
        )
    return number.reshape(()).to(q.device)


def _vector(parameter: tuple[str, str, str], vector: Any, call: Call) -> Any:
    """A vector of a score as problems x heads x elements, of the type that the score reads."""
    name, kind, element = parameter
    (problems, heads, queries, _), keys = call.q.shape, call.k.shape[2]
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
            f"{queries} queries and {keys} keys on {call.q.device}\n  help: {words}; 1 is broadcast"
        )
    dtype = _arrays.torch_dtype(element)
    if not vector.dtype.is_floating_point:
        from ._exact import exact

        vector = exact(vector, dtype)
    return vector.reshape(seen).to(dtype).contiguous()


# PyTorch's compiler takes the results of this as constants.


def resolved(
    key: str,
    causal: bool,
    mask: str | None,
    score: str | None,
    numbers: Any,
    vectors: tuple[str, ...],
    of_kernels: tuple[str | int, ...] = (),
) -> tuple[str | None, str, tuple, tuple]:
    """The closure of the score where any block needs it, the key of the mask with what is partial under it, which of the given
    numbers it takes in which order, and its parameters that are vectors, each with the name by which it is given.

    ``numbers`` are the names of those that are given, or how many are given in the order of the parameters; ``vectors`` are
    the names of those that are given, and ``of_kernels`` the names (or places) of numbers that are vectors by head.
    """
    how = (causal, mask, score, numbers, vectors)
    if key.startswith("every:"):
        return _by_head(*_of_every(key, *how), of_kernels)
    found: Any = find(key, (0, 0))
    if not found.on_device:
        return _by_head(*_resolved(key, *how)[0], of_kernels)
    # The cache of a mask of tensors lives as long as the mask.
    known = found.calls.get(how)
    if known is None:
        if len(found.calls) >= 256:
            found.calls.clear()
        known = found.calls[how] = _of_mask(found, *how)[0]
    return _by_head(*known, of_kernels)


def _by_head(closure: str | None, key: str, order: tuple, vectors: tuple, of_kernels: tuple[str | int, ...]) -> tuple:
    """What is resolved, where some numbers are vectors by head."""
    if closure is None or not of_kernels:
        return closure, key, order, tuple((vector, vector[0]) for vector in vectors)
    read = score_of(closure)
    if read.tree is None:
        raise Error(
            f"the score `{read.closure}` was not read: {read.why}\n  help: numbers of Python, not tensors that require a gradient or "
            "are on a GPU"
        )
    given = {name: of for name, of in zip(read.numbers, order) if of in of_kernels}
    closure = by_head(closure, tuple(given))
    read_too = tuple((of, given.get(of[0], of[0])) for of in score_of(closure).vectors)
    return closure, key, tuple(of for of in order if of not in of_kernels), read_too


@functools.lru_cache(maxsize=4096)
def _resolved(key: str, *how: Any) -> tuple[tuple, AttentionMask]:
    return _of_mask(find(key, (0, 0)), *how)


@functools.lru_cache(maxsize=4096)
def _of_every(key: str, causal: bool, mask: str | None, score: str | None, *names: Any) -> tuple:
    further, body = _conditions_and_score(causal, mask, score)
    condition = _all_of(further)
    closure = closure_of(condition, body)
    _, bm, bk, *_ = key.split(":")
    key = every((int(bm), int(bk)), None if condition is None else condition.text, body is not None)
    return closure, key, *_parameters(closure, closure, *names)


def _of_mask(found: Any, causal: bool, mask: str | None, score: str | None, *names: Any) -> tuple[tuple, Any]:
    further, body = _conditions_and_score(causal, mask, score)
    own = condition_of(found.mask) if found.mask is not None and found.has_partial else None
    if found.has_partial and own is None and not further and not (body is not None and body.leaves_out):
        some = "some" if found.on_device else f"{found.partial_blocks} of {found.stored}"
        raise Error(
            f"{some} blocks are partial, and there is no condition for their pairs\n"
            f'  help: pass the condition as text, `mask="{CAUSAL}"` for instance'
        )
    condition = _all_of([own, *further])
    every_closure = closure_of(condition, body)
    if found.on_device:
        # Which blocks are whole is known on the device.
        found = found.scored() if further or body is not None else found
    else:
        for more in further:
            found = _combined.narrowed(found, more)
        condition = condition_of(found.mask) if found.mask is not None and found.has_partial else None
        if body is not None and condition is not None:
            _combined.holds_in(condition, found, found.blocks() == 1)
        found = found.scored() if body is not None else found
    closure = closure_of(condition, body) if found.has_partial else None
    return (closure, found.key, *_parameters(every_closure, closure, *names)), found


def _conditions_and_score(causal: bool, mask: str | None, score: str | None) -> tuple[list[Condition], Score | None]:
    """The conditions that a call has, and its score where that is more than one of them."""
    further = [condition_of(text) for text in ((CAUSAL if causal else None), mask) if text is not None]
    body = None if score is None else score_of(score)
    if body is not None and body.is_mask:
        condition = of_score(body)
        further += [] if condition is None else [condition]
        body = None
    return further, body


def _all_of(conditions: Sequence[Condition | None]) -> Condition | None:
    known = [condition for condition in conditions if condition is not None]
    return functools.reduce(lambda a, b: a.joined("and", b), known) if known else None


def _parameters(every_closure: str | None, closure: str | None, numbers: Any, vectors: tuple[str, ...]) -> tuple:
    """Which of the given numbers a closure takes, and its vectors; all of a call's parameters are given."""
    if every_closure is None:
        if numbers or vectors:
            raise Error("numbers are given, and there is no mask and no score that takes them")
        return (), ()
    read = score_of(every_closure)
    wanted = [name for name, *_ in read.vectors]
    if sorted(wanted) != sorted(vectors):
        raise Error(
            f"the score takes the vectors {', '.join(wanted) or '(none)'}, and {', '.join(vectors) or 'none'} are given\n"
            "  help: `numbers={'name': tensor}`"
        )
    by_place = isinstance(numbers, int)
    if read.tree is None:
        if not by_place and numbers:
            raise Error(
                f"the score `{read.closure}` was not read: {read.why}\n"
                "  help: give the numbers in the order of its parameters"
            )
        return tuple(range(numbers if by_place else 0)), ()
    if by_place:
        if numbers != len(read.numbers):
            raise Error(f"the score takes {len(read.numbers)} numbers, and {numbers} are given")
    elif set(numbers) != set(read.numbers):
        raise Error(
            f"the score takes {', '.join(read.numbers) or 'no numbers'}, and {', '.join(numbers) or 'none'} are given"
        )
    taken = parameters_of(closure) if closure is not None else ()
    names = [name for name, kind, _ in taken if kind == "f32"]
    order = tuple(read.numbers.index(name) for name in names) if by_place else tuple(names)
    return order, tuple(parameter for parameter in taken if parameter[1] != "f32")


def mask_of(pattern: Any) -> Any:
    """The mask that a pattern is, or that of FlexAttention's."""
    if isinstance(pattern, AttentionMask):
        return pattern
    if hasattr(pattern, "kv_num_blocks") and hasattr(pattern, "BLOCK_SIZE"):
        return _of_block_mask(pattern)
    from ._device_masks import DeviceMask

    if isinstance(pattern, DeviceMask):
        return pattern
    raise Error(
        f"the pattern is a {type(pattern).__name__}, not an AttentionMask or DeviceMask\n  help: "
        "`bsr_gemm.AttentionMask.from_blocks`, `.from_pairs`, `.from_block_mask`, `.where`, `.causal` and others make one"
    )


def _of_block_mask(block_mask: Any) -> AttentionMask:
    """The mask of FlexAttention's, which keeps it: its lists are copied to the host once, and again where they have changed."""
    if _arrays.in_graph():
        raise Error(
            "torch.compile does not read the lists of a BlockMask\n  help: `bsr_gemm.AttentionMask.from_block_mask(block_mask, "
            "mask=..)` outside of the compiled function, and its result in place of the BlockMask"
        )
    lists = [getattr(block_mask, f"{full}kv_{what}") for full in ("", "full_") for what in ("num_blocks", "indices")]
    state = [None if tensor is None else (tensor.data_ptr(), tensor._version) for tensor in lists]
    known = getattr(block_mask, "_bsr_gemm_mask", None)
    if known is None or known[0] != state:
        known = block_mask._bsr_gemm_mask = (state, AttentionMask.from_block_mask(block_mask))
    return known[1]
