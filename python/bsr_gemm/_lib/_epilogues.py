"""What follows a product in layers and in their gradients, as epilogues."""

from __future__ import annotations

from typing import Literal, get_args

from ._native import Error

#: What may follow a product, in the words of an epilogue.
Activation = Literal["none", "relu", "gelu", "gelu_erf", "silu", "tanh", "sigmoid"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)


def check_activation(activation: str | None) -> None:
    """Refuses what is no activation."""
    if activation not in ACTIVATIONS:
        raise Error(f"`{activation}` is no activation\n  help: use one of {', '.join(ACTIVATIONS)}")


def epilogue_of(activation: str, bias: str | None) -> str | None:
    """The epilogue of a layer, where it has one. There is no f64 in a kernel: the CPU reads what it is given."""
    if bias is None:
        return None if activation == "none" else f"|| {activation}(acc)"
    kind = "f32" if bias == "f64" else bias
    total = "acc + bias"
    return f"|bias: Rows<{kind}>| {total if activation == 'none' else f'{activation}({total})'}"


#: What a gradient is multiplied by: of `u`, what the activation was given, or its result where OF_RESULT has it.
DERIVATIVES = {
    "relu": "let d = select(u > 0.0, acc, 0.0);",
    "tanh": "let d = acc * (1.0 - u * u);",
    "sigmoid": "let d = acc * u * (1.0 - u);",
    "silu": "let s = sigmoid(u); let d = acc * s * (1.0 + u * (1.0 - s));",
    "gelu": (
        "let q = u * u; let t = tanh(0.7978845608 * u * (1.0 + 0.044715 * q)); "
        "let d = acc * 0.5 * (1.0 + t + u * (1.0 - t * t) * 0.7978845608 * (1.0 + 0.134145 * q));"
    ),
    # The distribution function is what the activation divides by its argument; near zero it is a straight line.
    "gelu_erf": (
        "let p = select(abs(u) < 0.001, 0.5 + 0.3989422804 * u, gelu_erf(u) / u); "
        "let d = acc * (p + 0.3989422804 * u * exp(-0.5 * u * u));"
    ),
}
#: Activations whose derivative is a function of their result.
OF_RESULT = ("none", "relu", "tanh", "sigmoid")


def derivative_of(activation: str, kind: str) -> str:
    """The epilogue of a gradient that goes back through an activation; the second result is that of the bias."""
    if activation == "none":
        return "|| { let d = acc; (d, row_sum(d)) }"
    kind = "f32" if kind == "f64" else kind
    return f"|u: Dense<{kind}>| {{ {DERIVATIVES[activation]} (d, row_sum(d)) }}"
