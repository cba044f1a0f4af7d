"""Choices of kernels: explained, measured, remembered."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bsr_gemm as bsr
from bsr_gemm._lib import _native, _tuned, _tuning


@pytest.fixture(autouse=True)
def of_this_test(monkeypatch):
    monkeypatch.setattr(_tuned, "_settings", _tuned._Settings())
    monkeypatch.setattr(_tuned, "_is_read", True)
    yield
    _tuned.choose_anew()


@pytest.fixture
def w(rng):
    return bsr.from_dense(rng.standard_normal((256, 192)).astype(np.float16), (64, 32), keep=0.5)


def test_every_product_of_a_step_is_explained(w) -> None:
    words = {product: bsr.explain(w, 128, product=product) for product in ("forward", "input", "weight")}
    assert "transpose = on" in words["input"] and "op = sdd" in words["weight"]
    assert words["input"] == bsr.explain(w, 128, transpose=True)
    assert all("because" in text and "bm = 64" in text for text in words.values())
    x = np.ones((4, 32, 192), dtype=np.float16)
    assert bsr.explain(w, x) == words["forward"], "an operand says how many rows there are"
    assert "arch = sm_80" in bsr.explain(w, 128, gpu="A100"), "a kernel that the card runs"


@pytest.mark.parametrize(("dtype", "block"), [(np.float32, (64, 32)), (np.float64, (3, 3))])
def test_wide_types_have_kernels_without_tensor_cores(rng, dtype, block) -> None:
    wide = bsr.from_dense(rng.standard_normal((192, 96)).astype(dtype), block, keep=0.5)
    words = bsr.explain(wide, 1)
    assert "mma = scalar" in words and "because" in words
    if block == (3, 3):
        assert "transpose = on" in bsr.explain(wide, 1, product="input")
    else:
        with pytest.raises(bsr.Error, match="no kernel computes the product 'input'"):
            bsr.explain(wide, 1, product="input")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w: bsr.explain(w, 8, product="backward"), ["'backward'", "forward, input, weight"]),
        (lambda w: bsr.explain(np.ones((4, 4)), 8), ["ndarray, not a BsrMatrix"]),
        (lambda w: bsr.explain(w, 0), ["0 rows", "number of tokens"]),
        (lambda w: bsr.explain(w, 8, gpu="H100"), ["gpu = `H100`", "part of several names"]),
        (lambda w: bsr.explain(w, 8, gpu="H300"), ["gpu = `H300`", "no card that is known", "NVIDIA H200"]),
        (lambda w: bsr.set_tuning("guess"), ["'guess'", "predict, measure"]),
    ],
)
def test_what_cannot_be_chosen_is_refused(w, call, words) -> None:
    with pytest.raises(bsr.Error) as refused:
        call(w)
    for word in words:
        assert word in str(refused.value), str(refused.value)


@pytest.mark.parametrize(("block", "keep"), [(128, 0.25), (64, 0.25), (16, 0.1)])
def test_a_kernel_takes_an_epilogue(rng, block, keep) -> None:
    """Each family that is chosen from takes one: the choice is that without it."""
    sides = (4096 // block, 4096 // block)
    pattern = bsr.Pattern.from_mask(rng.random(sides) < keep, (4096, 4096), (block, block))._native
    facts = f"bm = {block}, bn = 64, bk = {block}, dtype = f16, b_layout = col, c_layout = col"
    card = _native.card("NVIDIA H200")
    plain = _tuning.Choice.of("forward", _native.explain(pattern, facts, 4096, card)).spec
    fused = _native.explain(pattern, facts, 4096, card, "", "|bias: Rows<f32>| gelu(acc + bias)")
    assert "epilogue" in fused and fused.startswith(plain)


def test_a_table_that_is_none_is_refused(w, tmp_path) -> None:
    table = tmp_path / "tuned.jsonl"
    table.write_text("no result\n")
    with pytest.raises(bsr.Error, match="line 1 is no tuned result"):
        bsr.set_tuning(table=table)
    assert _tuned.settings().lines == []


@pytest.mark.parametrize(("product", "shape"), [("forward", (128, 64)), ("weight", (120, 60))])
def test_a_sweep_on_the_simulator_ranks_kernels(rng, tmp_path, product, shape) -> None:
    w = bsr.from_dense(rng.standard_normal(shape).astype(np.float16), (64, 32), keep=0.5)
    database = tmp_path / "small.db"
    space = "bn = [64, 128], stages = 2"
    swept = bsr.sweep(w, 100, product=product, database=database, space=space, device="sim")
    assert len(swept.records) == 2 and not swept.is_measured and "predicts" in str(swept)
    assert swept.best["verdict"] == "timed" and "bm = 64" in swept.best["subject"]
    times = [record["timing"]["median_us"] for record in swept.records]
    assert times == sorted(times)
    again = bsr.sweep(w, 128, product=product, database=database, space=space, device="sim")
    assert "2 known from before" in again.summary and again.records == swept.records
    assert not list(tmp_path.glob("bsr-*")), "the matrix is not kept beside the database"
    assert swept.report(tmp_path / "small.html").stat().st_size > 1000
    assert _tuned.settings().lines == [], "what was not measured chooses nothing"


def test_what_was_measured_is_taken(rng, tmp_path) -> None:
    w = bsr.from_dense(rng.standard_normal((128, 64)).astype(np.float16), (64, 32), keep=0.5)
    swept = bsr.sweep(w, 128, database=tmp_path / "small.db", space="bn = [64, 128], stages = 2", device="sim")
    slowest = swept.records[-1]
    assert slowest["subject"] not in bsr.explain(w, 128).splitlines()[0]
    line = {
        "problem": slowest["problem"],
        "spec": slowest["subject"],
        "ptx": slowest["ptx"],
        "device": {"kind": "gpu", "name": "NVIDIA H200", "driver": "1"},
        "version": bsr.__version__,
        "us": 1.5,
        "ratio": None,
    }
    table = tmp_path / "tuned.jsonl"
    table.write_text(json.dumps(line) + "\n")
    bsr.set_tuning(table=table)
    words = bsr.explain(w, 128, gpu="NVIDIA H200")
    assert slowest["subject"] in words.splitlines()[0] and "this problem was tuned: 1.5 us" in words
    assert "this problem was tuned" not in bsr.explain(w, 128, gpu="H100 PCIe")


def test_the_environment_says_it_too(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("BSR_TUNING", "measure")
    monkeypatch.setenv("BSR_TUNED", str(tmp_path / "tuned.jsonl"))
    monkeypatch.setattr(_tuned, "_is_read", False)
    said = _tuned.settings()
    assert said.first_use == "measure" and said.path == tmp_path / "tuned.jsonl"


def test_without_a_gpu_nothing_is_measured(w) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(bsr.Error, match="there is none here") as refused:
        bsr.tune(w, 128)
    assert "bsr_gemm.explain" in str(refused.value)


@pytest.mark.gpu
def test_kernels_are_measured_and_remembered(rng, tmp_path) -> None:
    import torch

    # No block of the table that comes with the crate.
    w = bsr.from_dense(torch.randn(1152, 768, device="cuda", dtype=torch.bfloat16), (96, 64), keep=0.3)
    table = tmp_path / "tuned.jsonl"
    bsr.set_tuning(table=table)
    choices = bsr.tune(w, 300, backward=True)
    assert [choice.product for choice in choices] == ["forward", "input", "weight"]
    assert all("measured" in choice.why for choice in choices), [choice.why for choice in choices]
    assert len(table.read_text().splitlines()) == 3
    for choice in choices:
        words = bsr.explain(w, 512, product=choice.product)
        assert choice.spec in words.splitlines()[0] and "this problem was tuned" in words
    again = bsr.tune(w, 300)
    assert again[0].spec == choices[0].spec and "this problem was tuned" in again[0].why
    x = torch.randn(300, 768, device="cuda", dtype=torch.bfloat16)
    exact = x.double() @ w.to_dense().double().t()
    assert ((bsr.linear(x, w).double() - exact).norm() / exact.norm()).item() < 1e-2
    assert len(table.read_text().splitlines()) == 3


@pytest.mark.gpu
def test_a_first_use_is_measured(rng, tmp_path) -> None:
    import torch

    bsr.set_tuning("measure", table=tmp_path / "tuned.jsonl")
    w = bsr.from_dense(torch.randn(960, 640, device="cuda", dtype=torch.bfloat16), (80, 64), keep=0.3)
    x = torch.randn(64, 640, device="cuda", dtype=torch.bfloat16)
    bsr.linear(x, w)
    bsr.linear(x, w)
    assert len((tmp_path / "tuned.jsonl").read_text().splitlines()) == 1
    assert "this problem was tuned" in bsr.explain(w, x)


@pytest.mark.gpu
def test_a_sweep_on_a_gpu_is_used(rng, tmp_path) -> None:
    import torch

    w = bsr.from_dense(torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), (64, 64), keep=0.4)
    space = "bn = [64, 128], stages = 2..=3"
    swept = bsr.sweep(w, 200, database=tmp_path / "h200.db", space=space, device="gpu", halving=False)
    assert swept.is_measured and swept.best is not None
    assert "this problem was tuned" in bsr.explain(w, 256)
