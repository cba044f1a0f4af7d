"""Products, layers and attention under forward mode and the transforms of torch.func; layers with the state of others."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from apart import run  # noqa: E402
from torch import func  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def linear(inputs, outputs, activation="none", keep=0.5):
    dense = torch.nn.Linear(inputs, outputs, dtype=torch.float64)
    return nn.BlockSparseLinear.from_linear(dense, (8, 4), keep, activation=activation)


@pytest.mark.parametrize("activation", bsr.ACTIVATIONS)
def test_products_under_transforms(activation) -> None:
    w = bsr.from_dense(torch.randn(22, 14, dtype=torch.float64), (8, 4), keep=0.5)
    x, bias = torch.randn(3, 14, dtype=torch.float64), torch.randn(22, dtype=torch.float64)
    activate = bsr._lib._torch.activate

    def ours(x, values, bias):
        return bsr.linear(x, bsr.BsrMatrix(values, w.pattern, check=False), bias, activation)

    def theirs(x, values, bias):
        return activate(x @ bsr.BsrMatrix(values, w.pattern, check=False).to_dense().t() + bias, activation)

    primals = x, w.values, bias
    tangents = tuple(torch.randn_like(primal) for primal in primals)
    weights = torch.randn(3, 22, dtype=torch.float64)

    def loss(of):
        return lambda *args: (of(*args) * weights).sum()

    ways = [
        lambda f: func.jvp(f, primals, tangents),
        lambda f: func.jvp(lambda x: f(x, *primals[1:]), (x,), tangents[:1]),
        lambda f: func.vjp(f, *primals)[1](weights),
        lambda f: func.grad(loss(f), argnums=(0, 1, 2))(*primals),
        lambda f: func.jacrev(f, argnums=1)(*primals),
        lambda f: func.jacfwd(f, argnums=1)(*primals),
        lambda f: func.vmap(lambda x: f(x, *primals[1:]))(torch.stack([x, 2 * x, 3 * x])),
        lambda f: func.vmap(f)(*(torch.stack([p, 0.5 * p]) for p in primals)),
        lambda f: func.vmap(func.grad(lambda v, x: f(x, v, bias).square().sum()), (None, 0))(w.values, x),
    ]
    for number, way in enumerate(ways):
        found, expected = (torch.utils._pytree.tree_leaves(way(of)) for of in (ours, theirs))
        for one, other in zip(found, expected):
            assert one.shape == other.shape
            assert torch.allclose(one, other, atol=1e-6), f"way {number}"
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(primal, tangent) for primal, tangent in zip(primals, tangents)]
        found, expected = (forward_ad.unpack_dual(of(*duals)).tangent for of in (ours, theirs))
    assert torch.allclose(found, expected, atol=1e-6)
    a, b = torch.randn(22, 5, dtype=torch.float64), torch.randn(5, 14, dtype=torch.float64)
    stored = [
        lambda a, b: bsr.sddmm(a, b, w).values,
        lambda a, b: bsr._lib._matrix.gather(a @ b, w.pattern),
    ]
    for way in (lambda f: func.jvp(f, (a, b), (a.cos(), b.cos())), lambda f: func.jacrev(f, argnums=(0, 1))(a, b)):
        for one, other in zip(*(torch.utils._pytree.tree_leaves(way(f)) for f in stored)):
            assert torch.allclose(one, other)


def test_what_has_no_derivative_says_so() -> None:
    """Nothing is zero without a word: not in forward mode, not for operators that are called by themselves."""
    layer, x = linear(14, 22, "silu"), torch.randn(3, 14, dtype=torch.float64)
    down = linear(22, 14)
    q = torch.randn(1, 1, 16, 4, dtype=torch.float64)
    op, key = torch.ops.bsr_gemm, layer.pattern.key
    values, two = layer.weight.detach(), down.weight.detach()

    def ffn(x):
        return op.ffn(x, values, None, two, None, key, down.pattern.key, "gelu")[0]

    def attend(q):
        return bsr.attention(q, q, q, causal=True, block=(8, 8))

    def refused(call, words):
        with pytest.raises(bsr.Error, match=words):
            call()

    forward = "no derivative in forward mode"
    for f, of in [(lambda x: op.linear(x, values, None, key), x), (ffn, x), (attend, q)]:
        refused(lambda f=f, of=of: func.jvp(f, (of,), (of,)), forward)
        with forward_ad.dual_level():
            refused(lambda f=f, of=of: f(forward_ad.make_dual(of, of)), forward)
    refused(lambda: func.jvp(func.grad(lambda x: layer(x).sum()), (x,), (x,)), forward)
    refused(lambda: func.hessian(lambda q: attend(q).sum())(q), forward)
    refused(lambda: func.grad(lambda x: op.linear(x, values, None, key).sum())(x), "under a transform of torch.func")
    refused(lambda: func.grad(lambda x: func.grad(lambda x: layer(x).sum())(x).sum())(x), "second derivative")


def test_attention_under_transforms() -> None:
    q, k, v = (torch.randn(2, 2, 24, 4, dtype=torch.float64) for _ in range(3))
    slopes = torch.rand(2, dtype=torch.float64)

    def attend(q, k, v, lse=False):
        given = {"score": "|a: Heads<f32>| s * scale - a * (i - j)", "numbers": {"a": slopes}}
        return bsr.attention(q, k, v, causal=True, block=(8, 8), lse=lse, **given)

    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = torch.autograd.grad(attend(*inputs).square().sum(), inputs)
    found = func.grad(lambda *x: attend(*x).square().sum(), argnums=(0, 1, 2))(q, k, v)
    for one, other in zip(found, expected):
        assert torch.allclose(one, other)
    each = func.vmap(func.grad(lambda *x: attend(*(y[None] for y in x)).square().sum()))(q, k, v)
    assert torch.allclose(each, expected[0])
    for one, other in zip(
        func.vmap(lambda *x: attend(*(y[None] for y in x), lse=True))(q, k, v), attend(q, k, v, True)
    ):
        assert torch.allclose(one[:, 0], other)


LAYERS = {
    "linear": (lambda: linear(14, 22, "relu"), 14),
    "mlp": (lambda: nn.BlockSparseMLP(linear(14, 24), linear(24, 14), "gelu"), 14),
    "dynamic": (lambda: nn.DynamicBlockSparseLinear.from_layer(linear(12, 24)), 12),
    "float8": (lambda: nn.Float8BlockSparseLinear.from_layer(linear(14, 22).float()), 14),
}


@pytest.mark.parametrize(("make", "inputs"), LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_layer_computes_with_the_state_that_it_is_given(make, inputs, compiled) -> None:
    """The state of another layer has its pattern; the same number of blocks elsewhere."""
    first, second = make(), make()
    x = torch.randn(5, inputs, dtype=torch.float32 if isinstance(first, nn.Float8BlockSparseLinear) else torch.float64)
    wanted, own = second(x), first(x)
    assert not torch.allclose(wanted, own)
    state = {name: tensor.detach() for name, tensor in second.state_dict().items()}

    def call(state, x):
        return func.functional_call(first, state, (x,))

    call = torch.compile(call, fullgraph=True, backend="aot_eager") if compiled else call
    assert torch.allclose(call(state, x), wanted)
    assert torch.allclose(first(x), own), "its own again"
    if compiled or isinstance(first, nn.Float8BlockSparseLinear):
        return
    state = {name: tensor.requires_grad_(tensor.is_floating_point()) for name, tensor in state.items()}
    call(state, x).sum().backward()
    second(x).sum().backward()
    for name, parameter in second.named_parameters():
        assert torch.allclose(state[name].grad, parameter.grad)


def test_an_ensemble_has_the_patterns_of_its_models() -> None:
    models = [linear(30, 46, "tanh") for _ in range(3)]
    assert len({model.pattern.key for model in models}) == 3
    parameters, buffers = func.stack_module_state(models)
    base, x = copy.deepcopy(models[0]).to("meta"), torch.randn(5, 30, dtype=torch.float64)

    def call(parameters, buffers, x):
        return func.functional_call(base, (parameters, buffers), (x,))

    found = func.vmap(call, (0, 0, None))(parameters, buffers, x)
    assert torch.allclose(found, torch.stack([model(x) for model in models]))
    grads = func.vmap(func.grad(lambda *args: call(*args).square().sum()), (0, 0, None))(parameters, buffers, x)
    for at, model in enumerate(models):
        model(x).square().sum().backward()
        assert torch.allclose(grads["weight"][at], model.weight.grad)


def test_buffers_that_change_in_place_change_the_pattern() -> None:
    first, second = linear(14, 22), linear(14, 22)
    x = torch.randn(5, 14, dtype=torch.float64)
    with torch.no_grad():
        for to, tensor in zip(first.state_dict(keep_vars=True).values(), second.state_dict().values()):
            to.copy_(tensor)
    assert torch.equal(first(x), second(x)) and first.pattern == second.pattern
    assert copy.deepcopy(first).pattern == second.pattern
    moved = linear(14, 22).to("meta").to_empty(device="cpu")
    assert moved.row_ptr.tolist() == moved.pattern.row_ptr.tolist()
    moved.load_state_dict(second.state_dict())
    assert torch.equal(moved(x), second(x))
    with torch.device("meta"):
        meta = nn.BlockSparseLinear(14, 22, first.pattern, dtype=torch.float64)
    assert meta(x.to("meta")).shape == (5, 22)
    meta.load_state_dict(second.state_dict(), assign=True)
    assert torch.equal(meta(x), second(x)) and meta.pattern == second.pattern


def test_a_module_that_is_used_in_several_places_stays_one() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(32, 32)
            self.second, self.blocks = self.first, torch.nn.ModuleList([self.first, torch.nn.Sequential(self.first)])

    model = nn.sparsify_(Model(), block=(8, 8), keep=0.5)
    places = [model.first, model.second, model.blocks[0], model.blocks[1][0]]
    assert type(places[0]) is nn.BlockSparseLinear and all(place is places[0] for place in places)
    nn.float8_(model)
    places = [model.first, model.second, model.blocks[0], model.blocks[1][0]]
    assert type(places[0]) is nn.Float8BlockSparseLinear and all(place is places[0] for place in places)


def test_patterns_that_move_are_compiled_once() -> None:
    layer = linear(64, 64).float()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    x = torch.randn(5, 64)
    for _ in range(12):
        assert torch.allclose(compiled(x), x @ layer.to_linear().weight.t() + layer.bias, atol=1e-5)
        layer.drop_and_grow(0.2)
    assert counter.frame_count == 1
    layer.set_mask(np.eye(8, 16, dtype=bool))
    assert torch.allclose(compiled(x), x @ layer.to_linear().weight.t() + layer.bias, atol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "mlp", "dynamic"])
def test_exported_programs_run_in_another_process(tmp_path, kind) -> None:
    make, inputs = LAYERS[kind]
    layer, x = make(), torch.randn(5, inputs, dtype=torch.float64)
    program = torch.export.export(layer, (x,))
    assert torch.allclose(program.module()(x), layer(x))
    torch.export.save(program, tmp_path / "layer.pt2")
    torch.save((x, layer(x).detach()), tmp_path / "expected.pt")
    code = (
        "import sys, torch, bsr_gemm.nn\n"
        "x, expected = torch.load(sys.argv[2])\n"
        "found = torch.export.load(sys.argv[1]).module()(x)\n"
        "assert torch.allclose(found, expected)\n"
    )
    files = [str(tmp_path / name) for name in ("layer.pt2", "expected.pt")]
    run(code, *files)
