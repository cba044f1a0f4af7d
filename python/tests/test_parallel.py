"""Tensor parallelism, with two processes on the CPU, beside the whole layers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from apart import processes  # noqa: E402

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import Bsr, Dense, nn, parallel  # noqa: E402

RANKS = 2


@bsr.kernel(bm=64, bn=64, bk=32)
def product(a: Bsr["f16"], b: Dense["f16"]) -> Dense["f16"]: ...  # noqa: F821


class Gated(torch.nn.Module):
    """A feed-forward network with a gate."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.Linear
        made = (layer(48, 96), layer(48, 96, bias=False), layer(96, 40))
        self.norm = torch.nn.LayerNorm(48)
        self.gate, self.up, self.down = (nn.BlockSparseLinear.from_linear(dense, (16, 8), 0.5) for dense in made)

    def forward(self, x):
        x = self.norm(x)
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def network(activation: str) -> nn.BlockSparseMLP:
    """The same on every rank, with more blocks in the first hidden features than in the last."""
    torch.manual_seed(0)
    up, down = torch.nn.Linear(48, 100).double(), torch.nn.Linear(100, 40).double()
    with torch.no_grad():
        up.weight[:30] *= 4
        down.weight[:, :30] *= 4
    layers = [nn.BlockSparseLinear.from_linear(layer, (16, 8), 0.4) for layer in (up, down)]
    return nn.BlockSparseMLP(*layers, activation)


def gradients(model: torch.nn.Module, x, seed: int = 5):
    """The result of a model, and the gradient of its input; those of its parameters are left in it."""
    x = x.clone().requires_grad_()
    y = model(x)
    generator = torch.Generator().manual_seed(seed)
    (y * torch.randn(y.shape, generator=generator, dtype=y.dtype)).sum().backward()
    return y.detach(), x.grad


def with_gradients(model: torch.nn.Module) -> torch.nn.Module:
    """The model whose parameters are the gradients of this one's."""
    other = copy.deepcopy(model)
    for mine, theirs in zip(other.parameters(), model.parameters()):
        mine.data = theirs.grad.clone()
    return other


def close(found, exact) -> None:
    torch.testing.assert_close(found, exact, rtol=1e-10, atol=1e-10)


def same_as_whole(whole: torch.nn.Module, divided: torch.nn.Module, x) -> None:
    """Results and all gradients of a divided model are those of the whole one."""
    (y, dx), (y_part, dx_part) = gradients(whole, x), gradients(divided, x)
    close(y_part, y)
    close(dx_part, dx)
    # The process group cannot be copied: gradients take the places of the parameters for a moment.
    kept = [parameter.data for parameter in divided.parameters()]
    for parameter in divided.parameters():
        parameter.data = parameter.grad
    gathered = parallel.full_state_dict(divided)
    for parameter, data in zip(divided.parameters(), kept):
        parameter.data = data
    exact = with_gradients(whole).state_dict()
    assert gathered.keys() == exact.keys()
    for name, value in exact.items():
        close(gathered[name], value)


def check_networks(rank: int) -> None:
    torch.manual_seed(3)
    x = torch.randn(2, 7, 48, dtype=torch.float64)
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for activation in ("relu", "gelu", "none"):
        for chunks in (1, 3):
            model = torch.nn.Sequential(network(activation), torch.nn.Tanh())
            divided = nn.parallelize_(copy.deepcopy(model), mesh, chunks=chunks)
            assert isinstance(divided[0], parallel.ParallelMLP)
            stored = divided[0].up.weight.shape[0] + divided[0].down.weight.shape[0]
            assert stored < model[0].up.pattern.nnzb + model[0].down.pattern.nnzb
            same_as_whole(model, divided, x)


def check_plan(rank: int) -> None:
    torch.manual_seed(4)
    model = torch.nn.Sequential(Gated(), torch.nn.ReLU()).double()
    plan = {"*.gate": "column", "*.up": "column", "*.down": "row"}
    divided = nn.parallelize_(copy.deepcopy(model), dist.group.WORLD, plan)
    x = torch.randn(9, 48, dtype=torch.float64)
    same_as_whole(model, divided, x)
    with torch.no_grad():
        close(divided(x), model(x))


def check_first_rank(rank: int) -> None:
    """The weights are those of the first rank; other patterns are refused."""
    model = network("relu")
    with torch.no_grad():
        model.up.weight += rank
    whole = parallel.full_state_dict(nn.parallelize_(torch.nn.Sequential(model)))
    close(whole["0.up.weight"], network("relu").up.weight.detach())
    other = network("relu")
    if rank == 1:
        other.up.set_mask(np.ones(other.up.pattern.grid, dtype=bool))
    with pytest.raises(bsr.Error, match="rank 1 has other patterns than rank 0"):
        nn.parallelize_(torch.nn.Sequential(other))


def check_state(rank: int) -> None:
    model = torch.nn.Sequential(network("relu"), torch.nn.Linear(40, 3).double())
    divided = nn.parallelize_(copy.deepcopy(model))
    state = parallel.full_state_dict(divided)
    assert state.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(state[name], value), name
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    for parameter in model[0].parameters():
        dist.broadcast(parameter.data, 0)
    parallel.load_full_state_dict(divided, model.state_dict())
    x = torch.randn(5, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    close(divided(x), model(x))
    fewer = {name: value for name, value in state.items() if name != "0.down.weight"}
    with pytest.raises(bsr.Error, match=r"the state has no 0\.down\.weight"):
        parallel.load_full_state_dict(divided, fewer)
    with pytest.raises(bsr.Error, match="another pattern"):
        parallel.load_full_state_dict(divided, {**state, "0.up.col_idx": state["0.up.col_idx"].flip(0)})


def check_training(rank: int) -> None:
    models = [torch.nn.Sequential(network("gelu")), nn.parallelize_(torch.nn.Sequential(network("gelu")), chunks=2)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.01) for model in models]
    generator = torch.Generator().manual_seed(2)
    x, target = (torch.randn(16, size, dtype=torch.float64, generator=generator) for size in (48, 40))
    losses = []
    for _ in range(4):
        step = []
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
            step.append(loss.item())
        losses.append(step)
    assert all(abs(whole - divided) < 1e-10 for whole, divided in losses) and losses[-1][0] < losses[0][0], losses


def check_simulator(rank: int) -> None:
    """Every rank runs the kernels of its shards on the simulator, and the sum over the ranks is the whole product."""
    rng = np.random.default_rng(7)
    up = bsr.from_dense((rng.standard_normal((256, 64)) / 8).astype(np.float16), (64, 32), keep=0.5)
    down = bsr.from_dense((rng.standard_normal((128, 256)) / 16).astype(np.float16), (64, 32), keep=0.5)
    x = rng.standard_normal((64, 24)).astype(np.float16)
    (first,), second = bsr.shard_hidden([up], down, RANKS)
    hidden = bsr.simulate(product, first.part(up, rank), x)
    part = bsr.simulate(product, second.part(down, rank), np.maximum(hidden.result, 0))
    assert hidden.findings == [] and part.findings == []
    total = torch.from_numpy(part.result.astype(np.float32))
    dist.all_reduce(total)
    exact = down.to_dense().astype(np.float64) @ np.maximum(up.to_dense().astype(np.float64) @ x, 0)
    error = np.linalg.norm(total.numpy() - exact) / np.linalg.norm(exact)
    assert error < 2e-3, error
    flops = torch.tensor([hidden.flops + part.flops])
    dist.all_reduce(flops)
    assert flops.item() >= 2 * 24 * (up.nnzb + down.nnzb) * 64 * 32, "every stored block is multiplied once"


def check_refusals(rank: int) -> None:
    def refused(words: str, model, mesh=None, plan=None) -> None:
        with pytest.raises(bsr.Error) as error:
            nn.parallelize_(model, mesh, plan)
        assert words in str(error.value), error.value

    model = torch.nn.Sequential(network("relu"))
    refused("`col` is no style", model, plan={"0": "col"})
    refused("which is a BlockSparseMLP", model, plan={"0": "column"})
    refused("no layer of the model was divided", torch.nn.Sequential(torch.nn.ReLU()))
    refused("no layer before it", torch.nn.Sequential(Gated()), plan={"*.down": "row"})
    refused("consumes the features of gate", torch.nn.Sequential(Gated()), plan={"*.gate": "column"})
    refused("2 dimensions", model, dist.init_device_mesh("cpu", (RANKS, 1)))


CHECKS = (
    check_networks,
    check_plan,
    check_first_rank,
    check_state,
    check_training,
    check_simulator,
    check_refusals,
)


def work(rank: int, place: str) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    try:
        for check in CHECKS:
            check(rank)
            dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_compute_what_one_does(tmp_path) -> None:
    how = {"nprocs": RANKS, "start_method": processes().get_start_method()}
    torch.multiprocessing.start_processes(work, (str(tmp_path / "ranks"),), **how)


def test_without_a_group_nothing_is_divided() -> None:
    with pytest.raises(bsr.Error, match="torchrun"):
        nn.parallelize_(torch.nn.Sequential(network("relu")))


@pytest.mark.parametrize("divide", [bsr.shard_rows, bsr.shard_cols])
@pytest.mark.parametrize("tensors", [False, True])
def test_every_block_has_one_owner(rng, divide, tensors) -> None:
    for ranks in (1, 2, 3):
        dense = rng.standard_normal((70, 50)).astype(np.float32)
        w = bsr.from_dense(torch.from_numpy(dense) if tensors else dense, (16, 8), keep=0.4)
        sharding = divide(w, ranks)
        owned = np.concatenate([sharding.blocks(rank) for rank in range(ranks)])
        assert sorted(owned) == list(range(w.nnzb))
        parts = [sharding.part(w, rank) for rank in range(ranks)]
        assert [part.nnzb for part in parts] == [owned.blocks for owned in sharding.ranks]
        axis = 0 if divide is bsr.shard_rows else 1
        whole = np.concatenate([np.asarray(part.to_dense()) for part in parts], axis=axis)
        assert np.array_equal(whole, np.asarray(w.to_dense()))
        gathered = sharding.gather(parts)
        assert gathered.pattern == w.pattern and np.array_equal(np.asarray(gathered.values), np.asarray(w.values))
        lines = w.pattern.mask().sum(axis=1 - axis)
        assert max(owned.blocks for owned in sharding.ranks) < -(-w.nnzb // ranks) + lines.max()


def test_what_each_rank_owns_is_written_down() -> None:
    pattern = bsr.Pattern.from_mask(np.ones((5, 3), dtype=bool), (70, 20), (16, 8))
    assert str(bsr.shard_rows(pattern, 2)).splitlines() == [
        "rank 0: block rows 0..3, rows 0..48, 9 of 15 blocks",
        "rank 1: block rows 3..5, rows 48..70, 6 of 15 blocks",
        "the largest shard has 1.200 times the average",
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: bsr.shard_rows(w, 0), "0 ranks"),
        (lambda w: bsr.shard_rows(w, 9), "9 ranks share 4 whole block rows"),
        (lambda w: bsr.shard_hidden([w], w, 2), "64 outputs and the second 48 inputs"),
        (lambda w: bsr.shard_rows(w, 2).gather([w]), "1 shards of a matrix that 2 ranks own"),
        (lambda w: bsr.shard_rows(w, 2).gather([w, w]), "the shard of rank 0 has another pattern"),
        (lambda w: bsr.shard_rows(np.ones((4, 4)), 2), "ndarray has no blocks"),
    ],
)
def test_what_cannot_be_divided_is_refused(rng, call, words) -> None:
    w = bsr.from_dense(rng.standard_normal((64, 48)).astype(np.float32), (16, 8), keep=0.5)
    with pytest.raises(bsr.Error) as refused:
        call(w)
    assert words in str(refused.value)


def gpu_work(rank: int, place: str) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    try:
        torch.manual_seed(0)
        linears = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)
        model = nn.BlockSparseMLP.from_linears(*linears, (128, 128), 0.25).to("cuda", torch.bfloat16)
        x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16)
        dist.broadcast(x, 0)
        for chunks in (1, 4):
            divided = nn.parallelize_(torch.nn.Sequential(copy.deepcopy(model)), chunks=chunks)
            dy = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16, generator=None)
            dist.broadcast(dy, 0)
            results = []
            for network_ in (model, divided):
                leaf = x.clone().requires_grad_()
                y = network_(leaf)
                y.backward(dy)
                results.append((y.detach(), leaf.grad))
            for exact, found in zip(*results):
                error = (found.double() - exact.double()).norm() / exact.double().norm()
                assert error < 1e-2, error
    finally:
        dist.destroy_process_group()


@pytest.mark.gpu
def test_two_gpus_compute_what_one_does(tmp_path) -> None:
    if torch.cuda.device_count() < RANKS:
        pytest.skip("one GPU, and this takes two")
    torch.multiprocessing.spawn(gpu_work, (str(tmp_path / "ranks"),), nprocs=RANKS)
