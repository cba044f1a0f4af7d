"""What a call of attention costs the host, with its gradient: ``python benches/overhead_attention.py``.

The tensors are small, so that the GPU is never behind. Each line is the median of rounds of calls, in microseconds; between rounds the
GPU is waited for. ``q + k`` is what PyTorch takes to record an operation and to compute gradients. ``--profile`` adds where the
time of a call with its gradient goes by cProfile.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import pstats
from collections.abc import Callable

import torch
from layers import host_time

import bsr_gemm as bsr
from bsr_gemm._lib import _attention_known

SCORE = "|slopes: Heads<f32>| s * scale - slopes * abs(i - j)"


def without_gradient(call: Callable[[], torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return call()


def launches(call: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> list[tuple[str, Callable[[], object]]]:
    """The launches of a call and of its gradient, in Rust: the same ones again and again."""
    found: list[tuple[str, Callable[[], object]]] = []

    def seen(name: str, launch: Callable[..., object]) -> Callable[..., object]:
        def kept(*places: object) -> object:
            found.append((name, functools.partial(launch, *places)))
            return launch(*places)

        return kept

    _attention_known._known.clear()
    out = call()
    torch.autograd.grad(out, leaves, torch.ones_like(out))
    (known,) = _attention_known._known.values()
    forward, backward = known.forward, dict(known.backward)
    known.forward = (seen("the launch of attention alone", forward[0]), *forward[1:])
    for key, (launch, *rest) in backward.items():
        known.backward[key] = (seen("the launches of its gradient alone", launch), *rest)
    # The tensors stay alive, so that their addresses are theirs.
    out = call()
    places = torch.autograd.grad(out, leaves, torch.ones_like(out), retain_graph=True)
    known.forward, known.backward = forward, backward
    held = (out, places)
    return [(name, lambda launch=launch, held=held: launch()) for name, launch in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--profile", action="store_true", help="where the time of a call with its gradient goes")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bsr_gemm {bsr.__version__}")
    shape, sizes, block = (1, 4, arguments.tokens, 64), (arguments.tokens,) * 2, (64, 64)
    q, k, v = leaves = [torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
    slopes, of_out = torch.rand(4, device="cuda").requires_grad_(), torch.randn_like(q)
    mask = bsr.AttentionMask.causal(sizes, block)
    blocks = torch.ones([-(-size // side) for size, side in zip(sizes, block)], dtype=torch.bool, device="cuda").tril()
    on_gpu = bsr.DeviceMask.from_blocks(blocks, sizes, block)
    calls = {
        "attention": lambda: bsr.attention(q, k, v, mask),
        "attention under a DeviceMask": lambda: bsr.attention(q, k, v, on_gpu),
        "attention with slopes": lambda: bsr.attention(q, k, v, mask, score=SCORE, numbers={"slopes": slopes}),
        "scaled_dot_product_attention": lambda: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True
        ),
        "q + k": lambda: q + k,
    }
    for name, launch in launches(calls["attention"], leaves):
        print(f"{host_time(launch, rounds=25):8.2f} us  {name}")
    for name, call in calls.items():
        wanted = [q, k] if name == "q + k" else [*leaves, slopes] if name.endswith("slopes") else leaves

        def both(call: Callable[[], torch.Tensor] = call, wanted: list[torch.Tensor] = wanted) -> object:
            return torch.autograd.grad(call(), wanted, of_out)

        forms = {
            "without a gradient": functools.partial(without_gradient, call),
            "recorded": call,
            "with its gradient": both,
        }
        for form, function in forms.items():
            print(f"{host_time(function, rounds=25):8.2f} us  {name}, {form}")
        if arguments.profile and name == "attention":
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(4000):
                both()
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
