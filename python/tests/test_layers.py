"""Layers of PyTorch."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import captured  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402
from bsr_gemm._lib import _epilogues, _torch  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("mask", [np.ones((4, 4)) - np.eye(4), np.eye(4)[::-1]])
def test_a_gradient_of_blocks_that_are_gone_is_refused(rng, mask) -> None:
    layer = nn.BlockSparseLinear(64, 64, bsr.Pattern.from_mask(np.eye(4), (64, 64), (16, 16)))
    y = layer(torch.randn(3, 64, requires_grad=True))
    layer.set_mask(mask)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_layer_draws_its_pattern(rng) -> None:
    layer = nn.BlockSparseLinear(96, 70, block=(16, 8), keep=0.25)
    assert layer.pattern.block == (16, 8) and (np.diff(layer.pattern.row_ptr) == 3).all()
    torch.manual_seed(0)
    assert nn.BlockSparseLinear(96, 70, block=(16, 8), keep=0.25).pattern == layer.pattern
    assert nn.BlockSparseLinear(96, 70, block=(16, 8), keep=0.25).pattern != layer.pattern
    assert nn.BlockSparseLinear(96, 70, block=(16, 8), keep=1e-9).pattern.nnzb == 5
    for wrong in ({}, {"block": (16, 16)}, {"pattern": layer.pattern, "block": (16, 16)}, {"keep": 1.0}):
        with pytest.raises(bsr.Error, match="`pattern`, or both `block` and `keep`"):
            nn.BlockSparseLinear(96, 70, **wrong)
    with pytest.raises(bsr.Error, match="above 0 and at most 1"):
        nn.BlockSparseLinear(96, 70, block=(16, 16), keep=1.5)


def test_a_state_of_dense_layers_is_loaded(rng) -> None:
    dense = torch.nn.Sequential(torch.nn.Linear(96, 70), torch.nn.ReLU(), torch.nn.Linear(70, 32))
    sparse = torch.nn.Sequential(
        nn.BlockSparseLinear(96, 70, block=(16, 8), keep=0.5),
        torch.nn.ReLU(),
        nn.BlockSparseLinear(70, 32, block=(16, 16), keep=1.0),
    )
    pattern = sparse[0].pattern
    sparse.load_state_dict(dense.state_dict())
    assert sparse[0].pattern == pattern and torch.equal(sparse[2].matrix().to_dense(), dense[2].weight)
    kept = bsr.from_dense(torch.ones(70, 96), (16, 8), mask=pattern.mask()).to_dense()
    assert torch.equal(sparse[0].matrix().to_dense(), dense[0].weight * kept)
    assert torch.equal(sparse[0].bias, dense[0].bias)
    with pytest.raises(RuntimeError, match="size mismatch"):
        sparse.load_state_dict(torch.nn.Sequential(torch.nn.Linear(70, 96)).state_dict(), strict=False)


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


@pytest.mark.gpu
@pytest.mark.parametrize("block", [(128, 128), (64, 64), (16, 16)])
def test_a_cuda_graph_captures_a_training_step(rng, block) -> None:
    linears = torch.nn.Linear(512, 1024), torch.nn.Linear(1024, 512)
    network = nn.BlockSparseMLP.from_linears(*linears, block, 0.25, activation="gelu").to("cuda", torch.bfloat16)
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(x)

    def step() -> None:
        for tensor in (x, *network.parameters()):
            tensor.grad = None
        network(x).backward(dy)

    graph, _ = captured(step, warm_ups=3)
    gradients = [tensor.grad for tensor in (x, *network.parameters())]
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    found = [gradient.clone() for gradient in gradients]
    step()
    for gradient, tensor in zip(found, (x, *network.parameters())):
        assert relative(gradient, tensor.grad) < 1e-3


@pytest.mark.parametrize("activation", ["gelu", "gelu_erf", "silu", "relu"])
@pytest.mark.parametrize("block", [(64, 64), (32, 16)])
def test_the_simulator_runs_the_kernel_of_a_gradient(rng, activation, block) -> None:
    """The PTX that a GPU runs: the transposed product, the derivative as its epilogue, the sums of C's rows."""
    epilogue = _epilogues.derivative_of(activation, "bf16")
    facts = f"bm = {block[0]}, bn = 64, bk = {block[1]}, dtype = bf16, transpose = on, b_layout = col, c_layout = col"
    kernel = bsr.Kernel(f'{facts}, epilogue = "{epilogue}"')
    w = bsr.from_dense(torch.randn(128, 96, dtype=torch.bfloat16) / 4, block, keep=0.6)
    dy, z = torch.randn(40, 128, dtype=torch.bfloat16), torch.randn(40, 96, dtype=torch.bfloat16) * 2
    run = bsr.simulate(kernel, w, dy.t(), u=z.t())
    dz, sums = torch.ops.bsr_gemm.linear_gradient(dy, w.values, z, w.key, False, activation)
    assert run.findings == []
    assert relative(run.result.t(), dz) < 4e-3 and relative(torch.from_numpy(run.rows), sums) < 1e-3


def test_layers_of_pytorch_s_encoder() -> None:
    """In inference PyTorch has kernels for a whole layer, which read dense weights."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 32), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        nn.sparsify_(model, block=(8, 8), keep=1.0)
        found = model(x, src_key_padding_mask=padding)
        for each in model.layers:
            each.linear1, each.linear2 = each.linear1.to_linear(), each.linear2.to_linear()
        expected = model(x, src_key_padding_mask=padding)
    assert torch.allclose(found[~padding], expected[~padding], atol=1e-5)
