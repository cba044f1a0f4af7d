"""Sinks of attention: a logit of each head whose exponential is a term of every sum and has no value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _arrays
from ._native import Error


def read(sinks: Any, q: Tensor) -> Tensor | None:
    """Sinks of the heads of ``q`` in the type that sums have."""
    if sinks is None:
        return None
    found = f"a tensor of {list(sinks.shape)}" if _arrays.is_tensor(sinks) else f"a {type(sinks).__name__}"
    if not _arrays.is_tensor(sinks) or sinks.shape != q.shape[1:2] or not sinks.is_floating_point():
        raise Error(f"sinks are {found}\n  help: a tensor with a number for each of the {q.shape[1]} heads of q")
    if sinks.device != q.device:
        raise Error(f"sinks are on {sinks.device} and q on {q.device}\n  help: move them to one")
    return sinks.to(torch.float64 if q.dtype == torch.float64 else torch.float32).contiguous()


def gradient(do: Tensor, dlse: Tensor | None, o: Tensor, lse: Tensor, sinks: Tensor) -> Tensor:
    """The gradient of sinks from that of O, and of LSE where there is one: a sink takes its share from every other term."""
    delta = (do.to(lse.dtype) * o).sum(-1)
    delta = delta if dlse is None else delta - dlse
    # Of a query without keys under a sink of minus infinity there is nothing to share.
    shares = torch.where(lse.isneginf(), 0, (sinks[:, None] - lse).exp())
    return -(shares * delta).sum((0, 2))
