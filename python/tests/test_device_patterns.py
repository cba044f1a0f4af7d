"""Patterns that are tensors, and change between products. On the CPU they are read there; on a GPU the host never sees them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import bsr_gemm as bsr  # noqa: E402
from bsr_gemm import nn  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ROWS, COLS, BLOCK = 256, 320, (64, 64)


def kind(device: str) -> torch.dtype:
    return torch.bfloat16 if device == "cuda" else torch.float64


def matrix(device: str, seed: int = 0, index: torch.dtype = torch.int32, spare: int = 3, density: float = 0.4):
    """A matrix on the host's pattern, and one with the same on the device and room for some blocks more."""
    mask = np.random.default_rng(seed).random((ROWS // 64, COLS // 64)) < density
    pattern = bsr.Pattern.from_mask(mask, (ROWS, COLS), BLOCK)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(pattern.nnzb, *BLOCK, generator=generator, dtype=torch.float64).to(device, kind(device))
    places = torch.zeros(pattern.nnzb + spare, dtype=index, device=device)
    places[: pattern.nnzb] = torch.tensor(pattern.col_idx).to(places)
    row_ptr = torch.tensor(pattern.row_ptr, device=device).to(index)
    device_pattern = bsr.DevicePattern((ROWS, COLS), BLOCK, row_ptr, places)
    # NaN where no block is: it must not be read.
    room = torch.full((device_pattern.capacity, *BLOCK), torch.nan, device=device, dtype=values.dtype)
    room[: pattern.nnzb] = values
    return bsr.BsrMatrix(values, pattern), bsr.BsrMatrix(room, device_pattern)


def close(found, expected) -> None:
    tolerance = 2e-2 if found.dtype == torch.bfloat16 else 1e-10
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_products_are_those_of_the_host_s_pattern(device, index) -> None:
    host, on_device = matrix(device, index=index)
    x, y = (torch.randn(24, size, device=device, dtype=kind(device)) for size in (COLS, ROWS))
    bias = torch.randn(ROWS, device=device, dtype=kind(device))
    close(bsr.linear(x, on_device, bias, "gelu"), bsr.linear(x, host, bias, "gelu"))
    close(y @ on_device, y @ host)
    close(on_device @ x.T, host @ x.T)
    a, b = (
        torch.randn(ROWS, 32, device=device, dtype=kind(device)),
        torch.randn(32, COLS, device=device, dtype=kind(device)),
    )
    found, expected = bsr.sddmm(a, b, on_device), bsr.sddmm(a, b, host)
    close(found.values[: host.nnzb], expected.values)
    assert not found.values[host.nnzb :].any(), "places without a block"
    on_device.pattern.check()
    assert on_device.pattern.to_pattern() == host.pattern
    close(on_device.to_dense(), host.to_dense())
    close(on_device.T.to_dense(), host.to_dense().T)
    assert "up to" in repr(on_device)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device) -> None:
    host, on_device = matrix(device)
    on_device.values[host.nnzb :] = 0.0
    x = torch.randn(16, COLS, device=device, dtype=kind(device))
    dy = torch.randn(16, ROWS, device=device, dtype=kind(device))
    found = []
    for w in (host, on_device):
        inputs = [x.detach().requires_grad_(), w.values.detach().requires_grad_()]
        y = bsr.linear(inputs[0], bsr.BsrMatrix(inputs[1], w.pattern), activation="relu")
        found.append(torch.autograd.grad(y, inputs, dy))
    close(found[1][0], found[0][0])
    close(found[1][1][: host.nnzb], found[0][1])
    assert not found[1][1][host.nnzb :].any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_mask_that_changes(device) -> None:
    flags = torch.zeros(ROWS // 64, COLS // 64, dtype=torch.bool, device=device)
    pattern = bsr.DevicePattern.from_mask(flags, (ROWS, COLS), BLOCK, capacity=12)
    values = torch.randn(12, *BLOCK, device=device, dtype=kind(device))
    w, x = bsr.BsrMatrix(values, pattern), torch.randn(8, COLS, device=device, dtype=kind(device))
    assert not bsr.linear(x, w).any()
    for seed in range(4):
        mask = np.random.default_rng(seed).permutation(20).reshape(4, 5) < 3 * (seed + 1)
        flags.copy_(torch.from_numpy(mask))
        pattern.changed()
        host = bsr.Pattern.from_mask(mask, (ROWS, COLS), BLOCK)
        close(bsr.linear(x, w), bsr.linear(x, bsr.BsrMatrix(values[: host.nnzb], host)))
    pattern.check()
    flags.fill_(True)
    pattern.changed()
    bsr.linear(x, w)
    with pytest.raises(bsr.Error, match="12, the capacity"):
        pattern.check()


WRONG = [
    ("row_ptr", 0, 1, "the first row pointer is 1, not 0"),
    ("row_ptr", 2, -3, "is smaller than its own"),
    ("row_ptr", 4, 1000, "1000 > "),
    ("col_idx", 0, 5, "column 5, and the columns are 0 to 4"),
    ("col_idx", 0, -1, "column -1, and the columns"),
    ("col_idx", 1, 0, "occurs twice"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("which", "at", "value", "words"), WRONG)
def test_a_wrong_row_has_no_blocks_and_is_told(device, which, at, value, words) -> None:
    host, on_device = matrix(device, density=1.0)
    x = torch.randn(8, COLS, device=device, dtype=kind(device))
    expected = bsr.linear(x, host)
    getattr(on_device.pattern, which)[at] = value
    on_device.pattern.changed()
    found = bsr.linear(x, on_device)
    wrong = {"row_ptr": {0: [0], 2: [1, 2], 4: [3]}[at] if which == "row_ptr" else [], "col_idx": [0]}[which]
    for row in range(ROWS // 64):
        part = slice(64 * row, 64 * (row + 1))
        if row in wrong:
            assert not found[:, part].any()
        elif which == "col_idx":
            close(found[:, part], expected[:, part])
    with pytest.raises(bsr.Error, match=words):
        on_device.pattern.check()
    on_device.pattern.check()


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_of_layout_bsr_are_taken_as_they_are(device) -> None:
    host, _ = matrix(device)
    tensor = host.to_torch()
    w = bsr.BsrMatrix.from_torch(tensor, on_device=True)
    assert w.values.data_ptr() == tensor.values().data_ptr()
    assert w.pattern.col_idx.data_ptr() == tensor.col_indices().data_ptr()
    x = torch.randn(8, COLS, device=device, dtype=kind(device))
    close(bsr.linear(x, w), bsr.linear(x, host))
    assert bsr.DevicePattern.from_torch(tensor) is w.pattern


def test_what_does_not_fit_is_refused_in_words() -> None:
    _, w = matrix("cpu")
    row_ptr, col_idx = w.pattern.row_ptr, w.pattern.col_idx
    make = bsr.DevicePattern
    wrong = [
        (lambda: make((ROWS, COLS), BLOCK, row_ptr.float(), col_idx), "int32 or int64"),
        (lambda: make((ROWS, COLS), BLOCK, row_ptr.long(), col_idx), "both of one type"),
        (lambda: make((ROWS, COLS), BLOCK, row_ptr[1:], col_idx), "4 block rows have 5"),
        (lambda: make((ROWS, COLS), BLOCK, row_ptr, col_idx, 100), "the capacity is 100"),
        (lambda: make((ROWS, COLS), BLOCK, row_ptr, col_idx.repeat_interleave(2)[::2]), "contiguous"),
        (lambda: make.from_mask(torch.zeros(4, 4, dtype=torch.bool), (ROWS, COLS), BLOCK, 3), "4 x 5 booleans"),
        (lambda: make.from_torch(torch.zeros(3, 3)), "has no blocks"),
        (lambda: bsr.BsrMatrix(w.values[1:], w.pattern), "but "),
        (lambda: bsr.explain(w.to(torch.bfloat16), 8, gpu="NVIDIA H200"), "is on a device"),
    ]
    for attempt, words in wrong:
        with pytest.raises(bsr.Error, match=words):
            attempt()


@pytest.mark.parametrize("device", DEVICES)
def test_compile_has_no_graph_break(device) -> None:
    host, w = matrix(device)
    x = torch.randn(8, COLS, device=device, dtype=kind(device))
    compiled = torch.compile(lambda x: bsr.linear(x + 1, w) * 2, fullgraph=True, backend="aot_eager")
    close(compiled(x), bsr.linear(x + 1, host) * 2)


# The layer.


def layer_of(device: str, keep: float = 0.3):
    torch.manual_seed(0)
    dense = torch.nn.Linear(COLS, ROWS).to(device, torch.float32)
    layer = nn.DynamicBlockSparseLinear.from_linear(copy.deepcopy(dense), BLOCK, keep, activation="gelu")
    return layer.to(kind(device)), dense


@pytest.mark.parametrize("device", DEVICES)
def test_drop_and_grow_moves_values_and_what_the_optimizer_keeps(device) -> None:
    layer, _ = layer_of(device)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x = torch.randn(16, COLS, device=device, dtype=kind(device))
    layer(x).square().sum().backward()
    optimizer.step()
    before, moments = layer.matrix().to_host(), optimizer.state[layer.weight]["exp_avg"].clone()
    addresses = [
        t.data_ptr() for t in (layer.weight, layer.row_ptr, layer.col_idx, *optimizer.state[layer.weight].values())
    ]
    norms = before.values.detach().float().square().sum((1, 2)).cpu().numpy()
    scores = torch.rand(layer.grid, device=device)
    count = layer.drop_and_grow(0.5, scores=scores, optimizer=optimizer)
    assert count == round(before.nnzb * 0.5)
    after = layer.matrix().to_host()
    kept = {
        tuple(at) for at in np.stack([before.pattern.row_idx, before.pattern.col_idx], 1)[np.argsort(norms)[count:]]
    }
    free = np.where(before.pattern.mask(), -np.inf, scores.cpu().numpy())
    grown = {tuple(np.unravel_index(at, free.shape)) for at in np.argsort(-free.ravel())[:count]}
    found = {tuple(at) for at in np.stack([after.pattern.row_idx, after.pattern.col_idx], 1)}
    assert found == kept | grown
    number = {tuple(at): n for n, at in enumerate(np.stack([before.pattern.row_idx, before.pattern.col_idx], 1))}
    for n, at in enumerate(np.stack([after.pattern.row_idx, after.pattern.col_idx], 1)):
        if tuple(at) in kept:
            assert torch.equal(after.values[n], before.values[number[tuple(at)]])
            assert torch.equal(optimizer.state[layer.weight]["exp_avg"][n], moments[number[tuple(at)]])
        else:
            assert not after.values[n].any() and not optimizer.state[layer.weight]["exp_avg"][n].any()
    now = [t.data_ptr() for t in (layer.weight, layer.row_ptr, layer.col_idx, *optimizer.state[layer.weight].values())]
    assert now == addresses and not layer.weight.grad.any()
    expected = torch.nn.functional.gelu(x @ after.to_dense().T + layer.bias, approximate="tanh")
    close(layer(x), expected)
    layer.pattern.check()


@pytest.mark.parametrize("device", DEVICES)
def test_a_layer_trains_while_its_pattern_moves(device) -> None:
    layer, dense = layer_of(device)
    # From nothing, towards a dense layer's results.
    torch.nn.init.zeros_(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=2e-3)
    generator = torch.Generator(device=device).manual_seed(1)
    losses = []
    for step in range(40):
        x = torch.randn(64, COLS, device=device, dtype=kind(device), generator=generator)
        target = torch.nn.functional.gelu(dense(x.float()), approximate="tanh")
        loss = torch.nn.functional.mse_loss(layer(x).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            layer.drop_and_grow(0.2, optimizer=optimizer, generator=generator)
    assert np.mean(losses[-5:]) < 0.97 * np.mean(losses[:5])
    layer.pattern.check()


@pytest.mark.parametrize("device", DEVICES)
def test_layers_are_saved_copied_and_turned_into_others(device) -> None:
    layer, _ = layer_of(device)
    x = torch.randn(4, COLS, device=device, dtype=kind(device))
    expected = layer(x).detach()
    other, _ = layer_of(device)
    other.drop_and_grow(0.5)
    assert not torch.equal(other(x), expected)
    other.load_state_dict(layer.state_dict())
    close(other(x).detach(), expected)
    twin = copy.deepcopy(layer)
    assert twin.pattern.key != layer.pattern.key
    layer.drop_and_grow(0.5)
    close(twin(x).detach(), expected)
    close(twin.to_layer()(x).detach(), expected)
    assert "blocks of 64 x 64" in repr(layer)
    with pytest.raises(bsr.Error, match="beyond its edge"):
        nn.DynamicBlockSparseLinear(100, 64, bsr.Pattern.from_mask(np.ones((1, 2)), (64, 100), (64, 64)))


def test_the_tensors_of_a_pattern_are_not_replaced() -> None:
    pattern = bsr.DevicePattern((64, 64), (16, 16), torch.tensor([0, 1, 1, 1, 1]), torch.tensor([2]))
    for name in ("row_ptr", "col_idx", "capacity", "shape", "block"):
        with pytest.raises(AttributeError, match="call its `changed`"):
            setattr(pattern, name, None)


@pytest.mark.gpu
def test_one_graph_serves_a_hundred_patterns() -> None:
    layer, _ = layer_of("cuda")
    x = torch.randn(128, COLS, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        layer(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x)
        seen = set()
        for step in range(100):
            layer.drop_and_grow(0.4, generator=torch.Generator("cuda").manual_seed(step))
            x.normal_()
            graph.replay()
            dense = layer.matrix().to_dense()
            seen.add(layer.pattern.to_pattern().key)
            close(y, torch.nn.functional.gelu(x @ dense.T + layer.bias, approximate="tanh"))
        assert len(seen) > 50
    layer.pattern.check()


@pytest.mark.gpu
def test_nothing_waits_for_the_gpu() -> None:
    layer, _ = layer_of("cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(128, COLS, device="cuda", dtype=torch.bfloat16)
    tensor = matrix("cuda")[0].to_torch()

    def step() -> None:
        layer(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        layer.drop_and_grow(0.1, optimizer=optimizer)
        with torch.no_grad():
            bsr.linear(x, bsr.BsrMatrix.from_torch(tensor, on_device=True))

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_patterns_that_are_gone_are_forgotten() -> None:
    from bsr_gemm._lib import _gpu

    _, w = matrix("cuda")
    x = torch.randn(8, COLS, device="cuda", dtype=torch.bfloat16)
    bsr.linear(x, w)
    key = w.pattern.key
    assert any(key in str(of) for of in _gpu._sparse)
    del w
    assert not any(key in of for kept in (_gpu._sparse, _gpu._layers, _gpu._loaded) for of in kept)
