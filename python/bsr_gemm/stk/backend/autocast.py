"""Functions of autograd under autocast, as ``stk.backend.autocast`` has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


def custom_fwd(forward: Callable) -> Callable:
    """Under autocast, the function with tensors on a GPU in autocast's type, and without autocast."""

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled("cuda"):
            return forward(*args, **kwargs)
        dtype = torch.get_autocast_dtype("cuda")

        def cast(tensor: Tensor) -> Tensor:
            is_cast = tensor.is_cuda and tensor.is_floating_point() and tensor.dtype != torch.float64
            return tensor.to(dtype) if is_cast else tensor

        args, kwargs = tree_map_only(Tensor, cast, (args, kwargs))
        with torch.autocast("cuda", enabled=False):
            return forward(*args, **kwargs)

    return wrapped


def custom_bwd(backward: Callable) -> Callable:
    """The function without autocast."""

    @functools.wraps(backward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cuda", enabled=False):
            return backward(*args, **kwargs)

    return wrapped
