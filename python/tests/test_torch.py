"""Operators of PyTorch."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import captured  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture
def operands(rng):
    w = bsr.from_dense(torch.randn(22, 14, dtype=torch.float64), (8, 4), keep=0.5)
    x, bias = torch.randn(3, 14, dtype=torch.float64), torch.randn(22, dtype=torch.float64)
    return x.requires_grad_(), w.values.requires_grad_(), bias.requires_grad_(), w.key


@pytest.mark.parametrize("activation", bsr.ACTIVATIONS)
def test_gradients_of_a_layer(operands, activation) -> None:
    x, values, bias, key = operands

    def layer(*args):
        return torch.ops.bsr_gemm.linear(*args, key, False, activation)

    assert torch.autograd.gradcheck(layer, (x, values, bias))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("activation", bsr.ACTIVATIONS)
def test_gradients_of_a_feed_forward_network(operands, activation, with_bias) -> None:
    x, up, up_bias, key = operands
    w = bsr.from_dense(torch.randn(10, 22, dtype=torch.float64), (4, 8), keep=0.6)
    down, down_bias = w.values.requires_grad_(), torch.randn(10, dtype=torch.float64).requires_grad_()
    biases = (up_bias, down_bias) if with_bias else (None, None)

    def network(x, up, up_bias, down, down_bias):
        return torch.ops.bsr_gemm.ffn(x, up, up_bias, down, down_bias, key, w.key, activation)[0]

    assert torch.autograd.gradcheck(network, (x, up, biases[0], down, biases[1]))
    first, second = (
        bsr.BsrMatrix(values, pattern) for values, pattern in ((up, bsr._lib._patterns.find(key)), (down, w.pattern))
    )
    twice = bsr.linear(bsr.linear(x, first, biases[0], activation), second, biases[1])
    fused = bsr.ffn(x, first, second, *biases, activation)
    assert torch.allclose(fused, twice, atol=1e-12)
    wanted = [tensor for tensor in (x, up, down, *biases) if tensor is not None]
    dy = torch.randn_like(twice)
    for found, expected in zip(torch.autograd.grad(fused, wanted, dy), torch.autograd.grad(twice, wanted, dy)):
        assert torch.allclose(found, expected, atol=1e-6)


def test_second_derivatives_are_refused_in_words(operands) -> None:
    x, values, bias, key = operands
    a, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(22, 5), (5, 14)])
    op = torch.ops.bsr_gemm
    w = bsr.from_dense(torch.randn(10, 22, dtype=torch.float64), (4, 8), keep=0.6)
    down = w.values.requires_grad_()
    products = [
        (lambda: op.linear(x, values, bias, key), x),
        (lambda: op.linear(x, values, bias, key, False, "gelu"), values),
        (lambda: op.linear(x, values, bias, key, False, "relu"), bias),
        (lambda: op.sddmm(a, b, key), a),
        (lambda: op.ffn(x, values, bias, down, None, key, w.key, "silu")[0], x),
    ]
    for product, of in products:
        (first,) = torch.autograd.grad(product().square().sum(), of, create_graph=True)
        (expected,) = torch.autograd.grad(product().square().sum(), of)
        assert torch.equal(first, expected), "the first derivative is computed as ever"
        with pytest.raises(bsr.Error, match="second derivative of a block-sparse product"):
            first.square().sum().backward()


def test_gradients_of_the_other_products(operands) -> None:
    x, values, _, key = operands
    y = torch.randn(3, 22, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y, v: torch.ops.bsr_gemm.linear(y, v, None, key, True), (y, values))
    a, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(22, 5), (5, 14)])
    assert torch.autograd.gradcheck(lambda a, b: torch.ops.bsr_gemm.sampled(a, b, key), (a, b))


def test_opcheck(operands) -> None:
    x, values, bias, key = operands
    linear, sddmm = torch.ops.bsr_gemm.linear.default, torch.ops.bsr_gemm.sddmm.default
    torch.library.opcheck(linear, (x, values, bias, key, False, "gelu"))
    torch.library.opcheck(linear, (torch.randn(22, 7, dtype=torch.float64).t(), values, None, key, True, "none"))
    a, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(22, 5), (5, 14)])
    torch.library.opcheck(sddmm, (a, b, key))
    w = bsr.from_dense(torch.randn(10, 22, dtype=torch.float64), (4, 8), keep=0.6)
    ffn, gradient = torch.ops.bsr_gemm.ffn.default, torch.ops.bsr_gemm.linear_gradient.default
    for activation in ("gelu", "relu"):
        torch.library.opcheck(ffn, (x, values, bias, w.values.requires_grad_(), None, key, w.key, activation))
    dy, z = torch.randn(3, 10, dtype=torch.float64), torch.randn(3, 22, dtype=torch.float64)
    torch.library.opcheck(gradient, (dy, w.values.detach(), z, w.key, False, "gelu"))


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_opcheck_on_a_gpu(rng, activation) -> None:
    w = bsr.from_dense(torch.randn(256, 192, dtype=torch.bfloat16, device="cuda"), (64, 64), keep=0.5)
    x, bias = torch.randn(64, 192, dtype=torch.bfloat16, device="cuda"), torch.randn(256, device="cuda")
    operands = (x.requires_grad_(), w.values.requires_grad_(), bias, w.key, False, activation)
    torch.library.opcheck(torch.ops.bsr_gemm.linear.default, operands)
    v = bsr.from_dense(torch.randn(128, 256, dtype=torch.bfloat16, device="cuda"), (64, 64), keep=0.5)
    network = (x, w.values, bias.requires_grad_(), v.values.requires_grad_(), None, w.key, v.key, activation)
    torch.library.opcheck(torch.ops.bsr_gemm.ffn.default, network)


@pytest.mark.parametrize("device", DEVICES)
def test_compile_has_no_graph_break(rng, device) -> None:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(64, 96), (16, 16), 0.5, activation="silu").to(
        device, dtype
    )
    x = torch.randn(2, 8, 64, device=device, dtype=dtype, requires_grad=True)
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    tolerance = {"atol": 2e-2, "rtol": 2e-2} if device == "cuda" else {"atol": 1e-6}
    assert torch.allclose(compiled(x), layer(x), **tolerance)
    (expected,) = torch.autograd.grad(layer(x).square().sum(), x)
    (found,) = torch.autograd.grad(compiled(x).square().sum(), x)
    assert torch.allclose(found, expected, **({"atol": 0.1, "rtol": 0.1} if device == "cuda" else {"atol": 1e-5}))
    matrix = layer.matrix()
    functional = torch.compile(lambda x: bsr.linear(x, matrix, activation="relu"), fullgraph=True, backend=backend)
    assert torch.allclose(functional(x), bsr.linear(x, matrix, activation="relu"), **tolerance)
    layer.set_mask(np.eye(6, 4, dtype=bool))
    assert torch.allclose(compiled(x), layer(x), **tolerance), "a pattern that changes is compiled anew"


def test_compiled_products_have_their_order() -> None:
    """Square operands, for which a product in the wrong order has the right shape."""
    w = bsr.from_dense(torch.randn(32, 32, dtype=torch.float64), (8, 8), keep=0.5)
    dense, x = w.to_dense(), torch.randn(32, 32, dtype=torch.float64)
    ways = [
        (lambda x: torch.matmul(w, x), dense @ x),
        (lambda x: torch.matmul(x, w), x @ dense),
        (lambda x: torch.mm(w, x), dense @ x),
        (lambda x: bsr.bsr_gemm(w, x), dense @ x),
        (lambda x: torch.nn.functional.linear(x, w), x @ dense.t()),
    ]
    for product, expected in ways:
        assert torch.allclose(torch.compile(product, fullgraph=True, backend="aot_eager")(x), expected)
    for product, expected in [(lambda x: w @ x, dense @ x), (lambda x: x @ w, x @ dense)]:
        # The compiler swaps the operands of an operator: where it may leave the graph, it does.
        assert torch.allclose(product(x), expected)
        assert torch.allclose(torch.compile(product, backend="aot_eager")(x), expected)
        torch.compiler.reset()
        with pytest.raises(Exception, match="torch.compile cannot distinguish `w @ x` from `x @ w`"):
            torch.compile(product, fullgraph=True, backend="aot_eager")(x)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_takes_its_type(rng, device) -> None:
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(64, 96), (16, 16), 0.5).to(device)
    x = torch.randn(3, 64, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = layer(x)
        z = bsr.sddmm(
            x.t(), torch.randn(3, 96, device=device), bsr.Pattern.from_mask(np.ones((4, 6)), (64, 96), (16, 16))
        )
    assert y.dtype == z.dtype == torch.bfloat16
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32 and layer.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x, v, k: torch.ops.bsr_gemm.linear(x.half(), v, None, k),
            ["torch.float16", "torch.float64", "autocast"],
        ),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x, v[:1], None, k), ["1 x 8 x 4", "blocks of 8 x 4"]),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x[:, :3], v, None, k), ["3 x 3", "14 elements"]),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x, v, None, "0" * 32), ["no pattern", "0" * 32]),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x, v, x[0], k), ["bias is 14", "22 outputs"]),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x, v, None, k, False, "swish"), ["`swish`"]),
        (
            lambda x, v, k: torch.ops.bsr_gemm.linear(x, v, torch.empty(22, dtype=x.dtype, device="meta"), k),
            ["bias is on meta and x on cpu", "bias.to('cpu')"],
        ),
        (lambda x, v, k: torch.ops.bsr_gemm.linear(x.to("meta"), v, None, k), ["x is on meta and the weight on cpu"]),
        (lambda x, v, k: nn.BlockSparseLinear(3, 4, bsr.Pattern((4, 4), (2, 2), [0, 0, 0], [])), ["4 x 4", "4 x 3"]),
    ],
)
def test_operators_refuse_in_words(operands, call, words) -> None:
    x, values, _, key = operands
    with pytest.raises(bsr.Error) as refused:
        call(x, values, key)
    for word in words:
        assert word in str(refused.value), str(refused.value)


@pytest.mark.gpu
def test_a_cuda_graph_captures_a_layer(rng) -> None:
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(512, 1024), (64, 64), 0.25, activation="gelu").to(
        "cuda", torch.bfloat16
    )
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        graph, y = captured(lambda: layer(x))
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, layer(x))


@pytest.mark.gpu
def test_a_layer_runs_on_the_current_stream(rng) -> None:
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(2048, 2048), (64, 64), 0.25).to("cuda", torch.bfloat16)
    x = torch.zeros(4096, 2048, device="cuda", dtype=torch.bfloat16)
    source = torch.randn_like(x)
    with torch.no_grad():
        expected = layer(source)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.copy_(source)
            y = layer(x)
        stream.synchronize()
        assert torch.equal(y, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_is_refused_in_words(rng) -> None:
    w = bsr.from_dense(torch.randn(64, 64, device="cuda", dtype=torch.bfloat16), (64, 64))
    x = torch.randn(64, 8, device="cuda", dtype=torch.bfloat16)
    w @ x
    reader, writer = os.pipe()
    if os.fork() == 0:
        told = "it was not refused"
        try:
            w @ x
        except bsr.Error as error:
            told = str(error)
        except BaseException as error:
            told = f"not by us: {error!r}"
        finally:
            os.write(writer, told.encode())
            os._exit(0)
    os.close(writer)
    os.wait()
    told = os.read(reader, 1000)
    assert b"forked" in told, told


@pytest.mark.parametrize(
    ("make", "copied", "is_col"),
    [
        (lambda: torch.zeros(33, 64), False, False),
        (lambda: torch.zeros(33, 64).t(), False, True),
        (lambda: torch.zeros(33, 80)[:, 4:68], False, False),
        (lambda: torch.zeros(33, 80)[:, 1:65], True, False),
        (lambda: torch.zeros(33, 70)[:, :64], True, False),
        (lambda: torch.zeros(33, 63), True, False),
        (lambda: torch.zeros(33, 63).t(), True, True),
        (lambda: torch.zeros(33, 64)[:, ::2], True, False),
        (lambda: torch.zeros(1, 1).expand(33, 64), True, False),
        (lambda: torch.zeros(1, 64), False, False),
        (lambda: torch.zeros(1, 63), False, False),
        (lambda: torch.zeros(1, 70)[:, 1:64], True, False),
        (lambda: torch.zeros(64, 1), True, False),
    ],
)
def test_operands_are_made_addressable(make, copied, is_col) -> None:
    from bsr_gemm._lib import _operands

    x = make()
    held, (address, rows, cols, col, stride) = _operands.operand_of(x)
    assert (held is not x) == copied and (rows, cols) == tuple(x.shape) and col == is_col
    assert address == held.data_ptr() and address % 16 == 0 and stride * 4 % 16 == 0
    lines = held if copied else (x.t() if is_col else x)
    assert lines.stride(0) == stride or lines.shape[0] == 1
    seen = lines[:, : rows if is_col else cols]
    assert torch.equal(seen.t() if is_col else seen, x)


def test_a_single_line_of_elements_is_written_where_it_lies() -> None:
    from bsr_gemm._lib import _operands

    out = torch.zeros(1, 63)
    result = _operands.Result(out, elements=True)
    assert result.padded is None and result.argument == (out.data_ptr(), 1, 63, False, 64)
    assert _operands.Result(torch.zeros(2, 63), elements=True).padded is not None


@pytest.mark.parametrize(("rows", "cols"), [(5, 64), (5, 63), (1, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_results_are_written_in_whole_vectors(rows, cols, transposed) -> None:
    from bsr_gemm._lib import _operands

    out = torch.zeros(cols, rows).t() if transposed else torch.zeros(rows, cols)
    result = _operands.Result(out)
    address, *shape, is_col, stride = result.argument
    line = rows if is_col else cols
    assert shape == [rows, cols] and stride * 4 % 16 == 0 and stride >= line
    assert (result.padded is None) == (line * 4 % 16 == 0)
    written = out if result.padded is None else result.padded
    assert address == written.data_ptr()
    if result.padded is not None:
        written.fill_(7)
        result.finish()
        assert (out == 7).all()


@pytest.mark.gpu
def test_the_direct_way_is_the_operator(rng) -> None:
    w = bsr.from_dense(torch.randn(256, 192, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.5)
    x = torch.randn(3, 40, 192, device="cuda", dtype=torch.bfloat16)
    flat = x.reshape(-1, 192)
    assert torch.equal(bsr.linear(x, w).reshape(-1, 256), torch.ops.bsr_gemm.linear(flat, w.values, None, w.key))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        bsr.linear(x, w)
        bsr.linear(x.clone().requires_grad_(), w)
    names = [event.name for event in profile.events()]
    assert names.count("bsr_gemm::linear") == 1, "the second call alone goes through the dispatcher"


@pytest.mark.gpu
def test_an_operand_that_tma_cannot_address_is_copied(rng) -> None:
    w = bsr.from_dense(torch.randn(100, 70, device="cuda", dtype=torch.bfloat16), (16, 16), keep=0.5)
    wide = torch.randn(33, 73, device="cuda", dtype=torch.bfloat16)
    x = wide[:, 1:71]
    assert x.data_ptr() % 16 == 2
    assert torch.allclose(bsr.linear(x, w).float(), x.float() @ w.to_dense().float().t(), atol=0.2, rtol=0.02)


@pytest.mark.gpu
def test_what_is_kept_is_freed(rng) -> None:
    from bsr_gemm._lib import _gpu

    w = bsr.from_dense(torch.randn(256, 192, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.5)
    x = torch.randn(64, 192, device="cuda", dtype=torch.bfloat16)
    expected = bsr.linear(x, w)
    assert _gpu._sparse and _gpu._loaded and _gpu._layers
    bsr.empty_cache()
    assert not (_gpu._sparse or _gpu._loaded or _gpu._layers or _gpu._ready)
    assert torch.equal(bsr.linear(x, w), expected)
