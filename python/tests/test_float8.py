"""Layers with weights and activations of FP8."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402
from bsr_gemm._lib import _float8, _torch  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def relative(found, expected) -> float:
    """The error's norm over that of what is expected."""
    found, expected = found.detach().double(), expected.detach().double()
    return ((found - expected).norm() / expected.norm()).item()


def layer_of(device, block=(16, 16), activation="none", shape=(96, 80), dtype=torch.bfloat16, bias=True):
    linear = torch.nn.Linear(*shape, bias=bias).to(device, dtype)
    return nn.BlockSparseLinear.from_linear(linear, block, 0.5, activation=activation)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["none", "gelu", "relu"])
def test_a_layer_multiplies_the_rounded_operands(rng, device, dtype, activation) -> None:
    block = (64, 64) if device == "cuda" else (16, 16)
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of(device, block, activation, (320, 192), dtype))
    x = torch.randn(3, 40, 320, device=device, dtype=dtype) * torch.logspace(-3, 3, 40, device=device)[:, None]
    x = x.to(dtype)
    y = layer(x)
    assert y.dtype == dtype and y.shape == (3, 40, 192)
    quantised, scale = _float8.quantise_rows(x.reshape(-1, 320))
    dense = layer.to_linear().double()
    exact = dense(quantised.double() * scale.double()[:, None])
    expected = _torch.activate(exact, activation).reshape(3, 40, 192)
    eps = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 1e-6}[dtype]
    # On a GPU tensor cores add products of FP8 with fewer bits.
    tolerance = eps + (5e-3 if device == "cuda" else 1e-6)
    for row in range(40):
        assert relative(y[:, row], expected[:, row]) < tolerance
    assert relative(y, _torch.activate(layer.to_linear()(x.float()), activation)) < 0.05, "close to what was rounded"


@pytest.mark.parametrize("shape", [(70, 50), (33, 100)])
def test_blocks_beyond_the_edge(rng, shape) -> None:
    for bias in (True, False):
        layer = layer_of("cpu", (16, 32), shape=shape, bias=bias)
        quantised = nn.Float8BlockSparseLinear.from_layer(layer)
        assert relative(quantised.to_linear().weight, layer.to_linear().weight) < 0.04
        x = torch.randn(5, shape[0], dtype=torch.bfloat16)
        assert relative(quantised(x), layer(x)) < 0.06 and quantised(x).shape == (5, shape[1])


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(70, 50), (33, 100), (512, 1024)])
@pytest.mark.parametrize("block", [(128, 128), (64, 64), (32, 32), (16, 16)])
def test_blocks_on_a_gpu(rng, shape, block) -> None:
    layer = layer_of("cuda", block, shape=shape)
    quantised = nn.Float8BlockSparseLinear.from_layer(layer)
    x = torch.randn(37, shape[0], dtype=torch.bfloat16, device="cuda")
    assert relative(quantised(x), copy.deepcopy(quantised).cpu()(x.cpu()).cuda()) < 1e-2


def test_the_choice_of_a_kernel_is_explained(rng) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu", (64, 64), shape=(512, 256)))
    words = bsr.explain(layer, torch.zeros(3, 100, 512))
    assert "dtype = e4m3" in words and "n = 512" in words and "because" in words


def test_rows_and_outputs_of_zeros(rng) -> None:
    layer = layer_of("cpu")
    with torch.no_grad():
        layer.weight.zero_()
    quantised = nn.Float8BlockSparseLinear.from_layer(layer)
    x = torch.randn(4, 96, dtype=torch.bfloat16)
    x[2] = 0
    assert torch.equal(quantised(x), layer.bias.expand(4, -1)) and torch.isfinite(quantised.weight_scale).all()
    dense = layer_of("cpu", bias=False)
    y = nn.Float8BlockSparseLinear.from_layer(dense)(x)
    assert (y[2] == 0).all() and (y[1] != 0).any()
    assert nn.Float8BlockSparseLinear.from_layer(dense)(x[:0]).shape == (0, 80)


def test_opcheck(rng) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu"))
    x, scale = _float8.quantise_rows(torch.randn(6, 96))
    arguments = (x, scale, layer.weight, layer.weight_scale, layer.bias, layer._key, "silu", torch.float32)
    # The first of the checks adds numbers of FP8, which PyTorch does not.
    checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.bsr_gemm.float8_linear.default, arguments, test_utils=checks)


@pytest.mark.parametrize("device", DEVICES)
def test_compile_has_no_graph_break(rng, device) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of(device, (16, 16), "gelu"))
    x = torch.randn(2, 5, 96, dtype=torch.bfloat16, device=device)
    with torch.no_grad():
        compiled = torch.compile(layer, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
        assert relative(compiled(x), layer(x)) < 1e-2


def test_gradients_are_refused_in_words(rng) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu", dtype=torch.float32))
    y = layer(torch.randn(4, 96, requires_grad=True))
    assert not any(True for _ in layer.parameters()), "nothing to train"
    bias = torch.zeros(80, requires_grad=True)
    x, scale = _float8.quantise_rows(torch.randn(4, 96))
    y = torch.ops.bsr_gemm.float8_linear(
        x, scale, layer.weight, layer.weight_scale, bias, layer._key, "none", torch.float32
    )
    with pytest.raises(bsr.Error, match="a layer in FP8 computes no gradient"):
        y.sum().backward()


def test_a_model_changes_its_type_and_the_weight_stays(rng) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu"))
    weight, scale = layer.weight.clone(), layer.weight_scale.clone()
    layer.half().to(torch.float32).double().bfloat16()
    assert layer.weight.dtype == _float8.E4M3 and layer.weight_scale.dtype == torch.float32
    assert torch.equal(layer.weight.float(), weight.float()) and torch.equal(layer.weight_scale, scale)
    assert layer.bias.dtype == torch.bfloat16
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = nn.Float8BlockSparseLinear(96, 80, bsr.Pattern.from_mask(np.ones((5, 6)), (80, 96), (16, 16))).bfloat16()
    other.load_state_dict(torch.load(file))
    x = torch.randn(3, 96, dtype=torch.bfloat16)
    assert other.pattern == layer.pattern and torch.equal(other(x), layer(x))
    assert "blocks of 16 x 16" in repr(other)


def test_a_model_is_brought_to_float8(rng) -> None:
    linears = [torch.nn.Linear(32, 64), torch.nn.Linear(64, 32), torch.nn.Linear(32, 48)]
    network = nn.BlockSparseMLP.from_linears(*linears[:2], (16, 16), 0.5, activation="silu")
    last = nn.BlockSparseLinear.from_linear(linears[2], (16, 16), 0.5)
    model = torch.nn.Sequential(network, torch.nn.ReLU(), last).eval()
    x = torch.randn(7, 32)
    expected = model(x)
    found = nn.float8_(model)(x)
    assert relative(found, expected) < 0.06 and not torch.equal(found, expected)
    kinds = [type(module).__name__ for module in model.modules()]
    assert kinds.count("Float8BlockSparseLinear") == 3 and "BlockSparseLinear" not in kinds
    with pytest.raises(bsr.Error, match="no block-sparse layer"):
        nn.float8_(model)


@pytest.mark.parametrize("device", DEVICES)
def test_torchao_takes_the_config(rng, device) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    config = nn.register_torchao()
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).to(device)
    sparse = copy.deepcopy(model)
    quantization.quantize_(sparse, config(block=(16, 16), keep=0.5))
    quantization.quantize_(model, config(block=(16, 16), keep=0.5, float8=True))
    assert isinstance(model[0], nn.Float8BlockSparseLinear) and model[0].pattern == sparse[0].pattern
    if device == "cpu":
        x = torch.randn(5, 64)
        assert relative(model(x), sparse(x)) < 0.06
    else:
        x = torch.randn(5, 64, device=device, dtype=torch.bfloat16)
        assert relative(model(x), sparse.bfloat16()(x)) < 0.06


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": lambda x: x.float()}, ["torch.float32", "float8_e4m3fn"]),
        ({"x": lambda x: x[:, :80]}, ["6 x 80", "96 elements"]),
        ({"x_scale": lambda s: s[:3]}, ["x_scale is 3", "6 rows of x"]),
        ({"weight_scale": lambda s: s.double()}, ["weight_scale is of torch.float64", "torch.float32"]),
        ({"weight": lambda w: w[1:]}, ["14 x 16 x 16", "15 blocks"]),
        ({"bias": lambda b: b[1:]}, ["bias is 79", "80 outputs"]),
        ({"activation": lambda _: "swish"}, ["`swish`"]),
        ({"out_dtype": lambda _: torch.float64}, ["torch.float64", "torch.bfloat16"]),
    ],
)
def test_operators_refuse_in_words(rng, change, words) -> None:
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu"))
    x, scale = _float8.quantise_rows(torch.randn(6, 96))
    given = {"x": x, "x_scale": scale, "weight": layer.weight, "weight_scale": layer.weight_scale, "bias": layer.bias}
    given |= {"pattern": layer._key, "activation": "none", "out_dtype": torch.bfloat16}
    given |= {name: made(given[name]) for name, made in change.items()}
    with pytest.raises(bsr.Error) as refused:
        torch.ops.bsr_gemm.float8_linear(**given)
    for word in words:
        assert word in str(refused.value), str(refused.value)


@pytest.mark.parametrize("block", [(64, 64), (16, 32)])
def test_the_simulator_runs_the_kernel_of_a_layer(rng, block) -> None:
    """The PTX that a GPU runs, with both factors, the bias and the activation as its epilogue."""
    epilogue = _float8.epilogue_of("silu", "bf16")
    facts = f"bm = {block[0]}, bn = 64, bk = {block[1]}, dtype = e4m3, out = bf16, b_layout = col, c_layout = col"
    kernel = bsr.Kernel(f'{facts}, epilogue = "{epilogue}"')
    layer = nn.Float8BlockSparseLinear.from_layer(layer_of("cpu", block, "silu", (128, 192)))
    x = torch.randn(40, 128, dtype=torch.bfloat16)
    quantised, scale = _float8.quantise_rows(x)
    run = bsr.simulate(kernel, layer.matrix(), quantised.t(), ws=layer.weight_scale, xs=scale, bias=layer.bias)
    assert run.findings == [] and relative(run.result.t(), layer(x)) < 5e-3
