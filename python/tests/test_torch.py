"""Operators and layers of PyTorch."""

from __future__ import annotations

import copy
import io
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import _torch, nn  # noqa: E402

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
        bsr.BsrMatrix(values, pattern) for values, pattern in ((up, bsr._patterns.find(key)), (down, w.pattern))
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
        (lambda: op.sampled(a, b, key), a),
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
    linear, sampled = torch.ops.bsr_gemm.linear.default, torch.ops.bsr_gemm.sampled.default
    torch.library.opcheck(linear, (x, values, bias, key, False, "gelu"))
    torch.library.opcheck(linear, (torch.randn(22, 7, dtype=torch.float64).t(), values, None, key, True, "none"))
    a, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(22, 5), (5, 14)])
    torch.library.opcheck(sampled, (a, b, key))
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


@pytest.mark.parametrize("mask", [np.ones((4, 4)) - np.eye(4), np.eye(4)[::-1]])
def test_a_gradient_of_blocks_that_are_gone_is_refused(rng, mask) -> None:
    layer = nn.BlockSparseLinear(64, 64, bsr.Pattern.from_mask(np.eye(4), (64, 64), (16, 16)))
    y = layer(torch.randn(3, 64, requires_grad=True))
    layer.set_mask(mask)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


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


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_takes_its_type(rng, device) -> None:
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(64, 96), (16, 16), 0.5).to(device)
    x = torch.randn(3, 64, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = layer(x)
        z = bsr.sampled(
            x.t(), torch.randn(3, 96, device=device), bsr.Pattern.from_mask(np.ones((4, 6)), (64, 96), (16, 16))
        )
    assert y.dtype == z.dtype == torch.bfloat16
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32 and layer.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("device", DEVICES)
def test_a_layer_trains_as_its_masked_dense_twin(rng, device) -> None:
    dtype, tolerance = (torch.bfloat16, 5e-2) if device == "cuda" else (torch.float32, 1e-4)
    linears = [torch.nn.Linear(64, 128), torch.nn.Linear(128, 32)]
    sparse = torch.nn.Sequential(
        *(
            nn.BlockSparseLinear.from_linear(linear, (16, 16), 0.5, activation=activation)
            for linear, activation in zip(linears, ["gelu", "none"])
        )
    ).to(device, dtype)
    dense = torch.nn.Sequential(sparse[0].to_linear(), torch.nn.GELU(approximate="tanh"), sparse[1].to_linear())
    masks = [layer.weight != 0 for layer in (dense[0], dense[2])]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (sparse, dense)]
    x, target = torch.randn(32, 64, device=device, dtype=dtype), torch.randn(32, 32, device=device, dtype=dtype)
    losses = []
    for _ in range(5):
        step = []
        for model, optimizer in zip((sparse, dense), optimizers):
            loss = torch.nn.functional.mse_loss(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step.append(loss.item())
        with torch.no_grad():
            for layer, mask in zip((dense[0], dense[2]), masks):
                layer.weight.mul_(mask)
        losses.append(step)
    assert all(abs(a - b) < tolerance for a, b in losses), losses
    assert losses[-1][0] < losses[0][0]
    assert torch.allclose(sparse[0].to_linear().weight, dense[0].weight, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("activation", ["gelu", "silu", "relu", "gelu_erf", "none"])
@pytest.mark.parametrize("block", [(64, 64), (16, 16)])
def test_a_feed_forward_network_has_the_gradients_of_its_dense_twin(rng, device, activation, block) -> None:
    dtype, tolerance = (torch.bfloat16, 2e-2) if device == "cuda" else (torch.float32, 1e-5)
    linears = torch.nn.Linear(128, 512), torch.nn.Linear(512, 256)
    network = nn.BlockSparseMLP.from_linears(*linears, block, 0.5, activation=activation).to(device, dtype)
    twins = [layer.to_linear().double() for layer in (network.up, network.down)]
    x = torch.randn(2, 100, 128, device=device, dtype=dtype, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    y, expected = network(x), twins[1](_torch.activate(twins[0](exact), activation))
    with torch.no_grad():
        assert relative(network(x), expected) < tolerance, "without a gradient the activation is in the first product"
    dy = torch.randn_like(y)
    y.backward(dy)
    expected.backward(dy.double())
    assert relative(y, expected) < tolerance and relative(x.grad, exact.grad) < tolerance
    for layer, twin in zip((network.up, network.down), twins):
        mask = bsr.from_dense(torch.ones_like(twin.weight), block, mask=layer.pattern.mask()).to_dense()
        found = bsr.BsrMatrix(layer.weight.grad, layer.pattern).to_dense()
        assert relative(found, twin.weight.grad * mask) < tolerance
        assert relative(layer.bias.grad, twin.bias.grad) < tolerance


def relative(found, expected) -> float:
    """The error's norm over that of what is expected."""
    found, expected = found.detach().double(), expected.detach().double()
    return ((found - expected).norm() / expected.norm()).item()


def test_a_feed_forward_network_of_layers_that_do_not_fit_is_refused(rng) -> None:
    up, down = (nn.BlockSparseLinear.from_linear(torch.nn.Linear(32, 32), (16, 16), 0.5) for _ in range(2))
    with pytest.raises(bsr.Error, match="`swish` is no activation"):
        nn.BlockSparseMLP(up, down, "swish")
    wide = nn.BlockSparseLinear.from_linear(torch.nn.Linear(64, 32), (16, 16), 0.5)
    with pytest.raises(bsr.Error, match="32 outputs, and the second 64 inputs"):
        nn.BlockSparseMLP(up, wide)
    with pytest.raises(bsr.Error, match="first layer has 32 outputs, and the second 64"):
        bsr.ffn(torch.randn(3, 32), up.matrix(), wide.matrix())
    with pytest.raises(bsr.Error, match="`relu`, and the network `gelu`"):
        nn.BlockSparseMLP(nn.BlockSparseLinear.from_matrix(up.matrix(), activation="relu"), down, "gelu")
    network = torch.compile(nn.BlockSparseMLP(up, down, "gelu"), fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 3, 32, requires_grad=True)
    assert torch.allclose(network(x), down(torch.nn.functional.gelu(up(x), approximate="tanh")), atol=1e-6)


def test_a_state_dict_holds_the_pattern(rng) -> None:
    layer = nn.BlockSparseLinear.from_linear(torch.nn.Linear(70, 50), (16, 16), 0.4, activation="relu")
    other = nn.BlockSparseLinear(70, 50, bsr.Pattern.from_mask(np.ones((4, 5)), (50, 70), (16, 16)), activation="relu")
    other.load_state_dict(layer.state_dict())
    x = torch.randn(3, 70)
    assert other.pattern == layer.pattern and torch.equal(other(x), layer(x))
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for copied in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        assert torch.equal(copied(x), layer(x)) and copied.weight is not layer.weight
    wrong = layer.state_dict() | {"col_idx": layer.col_idx.flip(0)}
    with pytest.raises(bsr.Error, match="col_idx"):
        other.load_state_dict(wrong)


def test_a_layer_shows_its_pattern() -> None:
    layer = nn.BlockSparseLinear(32, 32, bsr.Pattern.from_mask(np.eye(2), (32, 32), (16, 16)), bias=False)
    assert "2 of 4 blocks of 16 x 16" in repr(layer) and "|█ |" in repr(layer)


def test_padding_stays_zero_in_training(rng) -> None:
    layer = nn.BlockSparseLinear(50, 70, bsr.Pattern.from_mask(np.ones((5, 4)), (70, 50), (16, 16)))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(torch.randn(4, 50)).square().sum().backward()
        optimizer.step()
    bsr.BsrMatrix(layer.weight.detach(), layer.pattern)  # Checks what lies beyond the edge.


def test_blocks_are_dropped_and_grown(rng) -> None:
    layer = nn.BlockSparseLinear(64, 64, bsr.Pattern.from_mask(rng.random((4, 4)) < 0.5, (64, 64), (16, 16)))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    layer(torch.randn(8, 64)).square().sum().backward()
    optimizer.step()
    before, dense = layer.pattern.mask(), layer.to_linear().weight.clone()
    state = bsr.BsrMatrix(optimizer.state[layer.weight]["exp_avg"], layer.pattern, check=False).to_dense()
    norms = layer.weight.detach().square().sum((1, 2))
    scores = np.arange(16.0).reshape(4, 4)
    count = layer.drop_and_grow(0.3, scores=scores, optimizer=optimizer)
    after = layer.pattern.mask()
    assert count == round(0.3 * before.sum()) == (before & ~after).sum() == (after & ~before).sum()
    grown = scores[after & ~before]
    assert sorted(grown) == sorted(scores[~before])[-count:]
    kept = np.kron(before & after, np.ones((16, 16), dtype=bool))
    now = layer.to_linear().weight
    assert torch.equal(now, torch.where(torch.from_numpy(kept), dense, 0.0))
    moved = bsr.BsrMatrix(optimizer.state[layer.weight]["exp_avg"], layer.pattern, check=False).to_dense()
    assert torch.equal(moved, torch.where(torch.from_numpy(kept), state, 0.0))
    dropped = norms.sort().values[:count].sum()
    assert torch.isclose((dense.square().sum() - now.square().sum()), dropped, rtol=1e-3)
    layer(torch.randn(8, 64)).square().sum().backward()
    optimizer.step()
    assert layer.drop_and_grow(0.0) == 0


class Model(torch.nn.Module):
    """Two layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
        self.lm_head = torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.lm_head(self.body(x))


def test_a_model_is_sparsified(rng) -> None:
    model = nn.sparsify_(Model(), block=(16, 16), keep=0.5)
    assert [type(module).__name__ for module in model.body] == ["BlockSparseLinear", "ReLU", "BlockSparseLinear"]
    assert type(model.lm_head) is torch.nn.Linear and model.body[0].pattern.density == 0.5
    assert nn.sparsify_(Model(), nn.SparsifyConfig((16, 16), per_row=1)).body[0].pattern.nnzb == 4
    other = nn.sparsify_(Model(), block=(16, 16), keep=0.25)
    other.load_state_dict(model.state_dict())
    x = torch.randn(3, 32)
    assert torch.equal(other(x), model(x))
    with pytest.raises(bsr.Error, match="lists the names"):
        nn.sparsify_(Model(), include="decoder.*")


def test_a_model_of_hugging_face_generates_as_its_dense_twin(rng) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = nn.sparsify_(transformers.LlamaForCausalLM(config), block=(16, 16), keep=0.5)
    tokens = torch.randint(0, 64, (2, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = model(input_ids=tokens, labels=tokens).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    loaded = nn.sparsify_(transformers.LlamaForCausalLM(config), block=(16, 16), keep=0.25)
    loaded.load_state_dict(model.state_dict())
    dense = copy.deepcopy(model)
    for name, module in list(dense.named_modules()):
        if isinstance(module, nn.BlockSparseLinear):
            parent, _, attribute = name.rpartition(".")
            setattr(dense.get_submodule(parent), attribute, module.to_linear())
    generated = [
        twin.eval().generate(tokens[:, :4], max_new_tokens=12, do_sample=False) for twin in (model, loaded, dense)
    ]
    assert torch.equal(generated[0], generated[1]) and torch.equal(generated[0], generated[2])


def test_torchao_takes_the_config(rng) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    model = Model()
    quantization.quantize_(model, nn.register_torchao()(block=(16, 16), keep=0.5))
    assert isinstance(model.body[0], nn.BlockSparseLinear)


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
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            layer(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x)
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
        (lambda: torch.zeros(64, 1), True, False),
    ],
)
def test_operands_are_made_addressable(make, copied, is_col) -> None:
    from bsr_gemm import _gpu

    x = make()
    held, (address, rows, cols, col, stride) = _gpu._operand(x)
    assert (held is not x) == copied and (rows, cols) == tuple(x.shape) and col == is_col
    assert address == held.data_ptr() and address % 16 == 0 and stride * 4 % 16 == 0
    lines = held if copied else (x.t() if is_col else x)
    assert lines.stride(0) == stride or lines.shape[0] == 1
    seen = lines[:, : rows if is_col else cols]
    assert torch.equal(seen.t() if is_col else seen, x)


@pytest.mark.parametrize(("rows", "cols"), [(5, 64), (5, 63), (1, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_results_are_written_in_whole_vectors(rows, cols, transposed) -> None:
    from bsr_gemm import _gpu

    out = torch.zeros(cols, rows).t() if transposed else torch.zeros(rows, cols)
    result = _gpu._Result(out)
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
    from bsr_gemm import _gpu

    w = bsr.from_dense(torch.randn(256, 192, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.5)
    x = torch.randn(64, 192, device="cuda", dtype=torch.bfloat16)
    expected = bsr.linear(x, w)
    assert _gpu._sparse and _gpu._loaded and _gpu._layers
    bsr.empty_cache()
    assert not (_gpu._sparse or _gpu._loaded or _gpu._layers or _gpu._ready)
    assert torch.equal(bsr.linear(x, w), expected)
