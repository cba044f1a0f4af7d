"""Attention for models of Hugging Face's ``transformers``: importing this module registers it as ``"bsr"``.

>>> import bsr_gemm.transformers
>>> model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="bsr")

Causal masks and sliding windows of a model's configuration, padding, and sequences packed into one row become conditions of
:func:`bsr_gemm.attention`: blocks without a pair that counts are not computed. What it does not compute is refused: dropout,
masks of pairs as tensors, other functions of masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from ._lib._attention import attention
from ._lib._native import Error

__all__ = ["NAME", "Mask", "attention_forward", "make_mask"]

#: The ``attn_implementation`` of these functions.
NAME = "bsr"


class Mask(BlockMask):
    """What the layers of a model get as their mask: a condition, if any, and the vectors that it reads.

    It has nothing of a ``BlockMask`` but the class and the shape, by which ``transformers`` knows what it passes on as it is.
    """

    def __init__(self, condition: str | None, vectors: dict[str, Tensor], shape: tuple[int, ...]) -> None:
        self.condition, self.vectors, self._shape = condition, vectors, shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __repr__(self) -> str:
        return f"Mask({self.condition!r}, {' x '.join(map(str, self.shape))})"


@dataclass
class _Rule:
    """What the functions of which ``transformers`` composes a mask say."""

    causal: bool = False
    #: A key counts if it is less than so many places before the query, or at most so many places away on either side.
    window: int | None = None
    distance: int | None = None
    #: The sequence to which each token of a row belongs.
    sequences: Tensor | None = None
    is_of_positions: bool = False

    @classmethod
    def of(cls, function: Callable) -> _Rule:
        rule = cls()
        rule._read(function)
        if rule.is_of_positions and rule.sequences is None:
            raise _unread("positions of packed sequences")
        return rule

    def _read(self, function: Any) -> None:
        # A function within another has its name, and what it was made with in its closure.
        module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", type(function).__name__)
        if module != causal_mask_function.__module__:
            raise _unread(f"{module}.{name}")
        values = {
            variable: cell.cell_contents
            for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
        }
        match name.partition(".<locals>")[0]:
            case "causal_mask_function":
                self.causal = True
            case "bidirectional_mask_function":
                pass
            case "and_masks":
                for part in values["mask_functions"]:
                    self._read(part)
            case "sliding_window_overlay":
                self.window = values["sliding_window"]
            case "sliding_window_bidirectional_overlay":
                self.distance = values["sliding_window"]
            case "packed_sequence_mask_function":
                self.sequences = values["packed_sequence_mask"]
            case "remap_positions_for_packed_sequence":
                # Within a sequence positions differ as indices do.
                self.is_of_positions = True
                self._read(values["mask_function"])
            case _:
                raise _unread(name)


def _unread(name: str) -> Error:
    return Error(
        f"the mask of this model is made of `{name}`; causal masks, sliding windows and packed sequences are supported\n"
        "  help: `attn_implementation='sdpa'` for this model, or a layer that calls `bsr_gemm.attention` with the mask as text"
    )


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable = causal_mask_function,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> Mask:
    """The mask of a model's layers, as ``AttentionMaskInterface`` asks for it."""
    rule = _Rule.of(mask_function)
    tests, parameters, vectors = [], [], {}
    # The place of a query among the keys. What always holds is left out: most steps of decoding need no condition.
    if isinstance(q_offset, Tensor):
        query, beyond, longest = "place", True, kv_length
        parameters.append("place: Rows<f32>")
        vectors["place"] = (torch.arange(q_length, device=q_offset.device) + (q_offset - kv_offset)).float()
    else:
        first = q_offset - kv_offset
        query = "i" if first == 0 else f"i + {first}" if first > 0 else f"i - {-first}"
        beyond, longest = first < kv_length - 1, first + q_length - 1
    if rule.causal and beyond:
        tests.append(f"j <= {query}")
    if rule.window is not None and longest >= rule.window:
        tests.append(f"{query} - j < {rule.window}")
    if rule.distance is not None:
        tests.append(f"{query} - j <= {rule.distance} && j - ({query}) <= {rule.distance}")
    if rule.sequences is not None:
        parameters += ["own: Rows<f32>", "other: Cols<f32>"]
        vectors |= {"own": rule.sequences, "other": rule.sequences}
        tests.append("own == other")
    valid = _valid(attention_mask, kv_length, kv_offset)
    if valid is not None:
        parameters.append("valid: Cols<f32>")
        vectors["valid"] = valid
        tests.append("valid > 0")
    listed = f"|{', '.join(parameters)}| " if parameters else ""
    shape = (batch_size, 1, q_length, kv_length)
    return Mask(listed + " && ".join(tests), vectors, shape) if tests else Mask(None, {}, shape)


def _valid(attention_mask: Tensor | None, keys: int, offset: int) -> Tensor | None:
    """1 for each key that is no padding; None where none is, which is looked up once for all layers."""
    if attention_mask is None:
        return None
    if attention_mask.dim() != 2:
        raise _of_pairs(attention_mask)
    valid = attention_mask[:, offset : offset + keys]
    missing = keys - valid.shape[1]
    if missing == 0 and not _is_captured(valid) and bool(valid.all()):
        return None
    return torch.nn.functional.pad(valid.float(), (0, missing))


def _is_captured(tensor: Tensor) -> bool:
    return torch.compiler.is_compiling() or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention of a layer, as ``AttentionInterface`` calls it: problems x tokens x heads x columns, and no weights."""
    if dropout > 0.0:
        raise Error(
            f"dropout = {dropout} of attention weights, which are never stored\n  help: `attention_dropout=0.0` in the configuration, or "
            "`model.eval()`"
        )
    if position_bias is not None or kwargs.get("output_attentions"):
        what = "a bias for every pair" if position_bias is not None else "the weights of attention as a result"
        raise Error(f"{what} is not supported\n  help: `attn_implementation='eager'` for this model")
    if isinstance(attention_mask, Mask):
        condition, vectors = attention_mask.condition, attention_mask.vectors
    elif attention_mask is not None:
        raise _of_pairs(attention_mask)
    else:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        if causal and sliding_window is not None and key.shape[2] > sliding_window:
            raise Error(
                f"a sliding window of {sliding_window} keys without a mask, for {key.shape[2]} keys\n"
                "  help: `attn_implementation='sdpa'` for this model, which makes no masks of windows"
            )
        condition, vectors = "j <= i" if causal and query.shape[2] > 1 else None, {}
    numbers: dict[str, Any] = {name: vector.to(query.device) for name, vector in vectors.items()}
    score = None
    if softcap is not None:
        score, numbers["cap"] = "|cap: f32| cap * tanh(s * scale / cap)", softcap
    out = attention(query, key, value, mask=condition, score=score, numbers=numbers, scale=scaling, sinks=s_aux)
    return out.transpose(1, 2).contiguous(), None


def _of_pairs(mask: Any) -> Error:
    found = f"{' x '.join(map(str, mask.shape))} of {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
    return Error(
        f"the mask is {found}\n  help: a mask of padding, problems x tokens, or none: the model's configuration says which pairs count; "
        "`attn_implementation='sdpa'` takes a tensor of pairs"
    )


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, make_mask)
