"""Kernels that are functions of Python: compiled, refused, computed, simulated."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bsr_gemm as bsr
from bsr_gemm import Bsr, Cols, Dense, Rows

# ruff: noqa: F821  (names of the epilogue's language)


@bsr.kernel(bm=64, bn=64, bk=32)
def ffn_up(a: Bsr["f16"], b: Dense["f16"], bias: Rows["f32"], alpha: float = 0.5) -> Dense["f16"]:
    """The first half of a feed-forward network."""
    return gelu(alpha * acc + bias)


@bsr.kernel(bm=64, bn=64, bk=32)
def norms(a: Bsr["f16"], b: Dense["f16"], scale: Cols["f32"]) -> tuple[Dense["f16"], Rows["f32"]]:
    x = max(acc, 0) * scale
    return x, row_sum(x * x)


@bsr.kernel(bm=64, bn=64, bk=64)
def right(a: Dense["f16"], b: Bsr["f16"], add: Rows["f32"], res: Dense["f32"]) -> Dense["f32"]:
    return (acc if acc < 3 else 3.0) - add + res


@bsr.kernel(bm=32, bn=64, bk=32)
def scores(a: Dense["f16"], b: Dense["f16"], scale: float) -> Bsr["f16"]:
    return scale * acc


@bsr.kernel(bm=32, bn=64, bk=32, transpose=True)
def stored_transposed(a: Dense["f16"], b: Dense["f16"], mask: Bsr["f16"], add: Rows["f32"]) -> Bsr["f16"]:
    return acc * mask + add


@bsr.kernel(bm=64, bn=64, bk=32)
def plain(a: Bsr["f16"], b: Dense["f16"]) -> Dense["f16"]: ...


@pytest.fixture
def operands(rng):
    w = bsr.from_dense((rng.standard_normal((130, 96)) / 4).astype(np.float16), (64, 32), keep=0.6)
    return w, rng.standard_normal((96, 40)).astype(np.float16)


def exact(w, x) -> np.ndarray:
    return w.to_dense().astype(np.float64) @ x.astype(np.float64)


def gelu_of(z):
    return z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def close(found, expected, tolerance=2e-3) -> None:
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_a_function_becomes_a_spec() -> None:
    assert (
        ffn_up.spec == 'bm = 64, bn = 64, bk = 32, epilogue = "|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)"'
    )
    assert ".target sm_90a" in ffn_up.ptx and ffn_up.entry in ffn_up.ptx
    assert "sparsity block" in ffn_up.plan and ffn_up.__doc__ == "The first half of a feed-forward network."
    assert norms.epilogue == "|scale: Cols<f32>| { let x = max(acc, 0) * scale; (x, row_sum(x * x)) }"
    assert right.spec.startswith("bm = 64, bn = 64, bk = 64, op = dds, out = f32")
    assert "op = sdd" in scores.spec and plain.epilogue is None
    assert bsr.Kernel(ffn_up.spec).ptx == ffn_up.ptx


def test_kernels_on_the_cpu(operands, rng) -> None:
    w, x = operands
    bias, scale = rng.standard_normal(130).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    z = exact(w, x)
    close(plain(w, x), z)
    close(ffn_up(w, x, bias), gelu_of(0.5 * z + bias[:, None]))
    close(ffn_up(w, x, bias=bias, alpha=2.0), gelu_of(2.0 * z + bias[:, None]))
    result, rows = norms(w, x, scale)
    expected = np.maximum(z, 0) * scale
    close(result, expected)
    close(rows, np.square(expected).sum(axis=1))


def test_kernels_with_another_sparse_matrix(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((128, 70)).astype(np.float16) / 8, (64, 64), keep=0.7)
    a, add = rng.standard_normal((50, 128)).astype(np.float16), rng.standard_normal(50).astype(np.float32)
    res = rng.standard_normal((50, 70)).astype(np.float32)
    z = a.astype(np.float64) @ w.to_dense().astype(np.float64)
    close(right(a, w, add, res), np.minimum(z, 3.0) - add[:, None] + res)
    pattern = bsr.Pattern.from_mask(rng.random((4, 3)) < 0.5, (128, 70), (32, 32))
    b = rng.standard_normal((50, 70)).astype(np.float16)
    stored = scores(a.T, b, 0.25, like=pattern)
    whole = np.kron(pattern.mask(), np.ones((32, 32)))[:, :70]
    close(stored.to_dense(), 0.25 * (a.T.astype(np.float64) @ b.astype(np.float64)) * whole)


def test_an_sddmm_that_is_stored_transposed(rng) -> None:
    pattern = bsr.Pattern.from_mask(rng.random((3, 2)) < 0.7, (70, 64), (32, 32))
    a, b = rng.standard_normal((64, 48)).astype(np.float16), rng.standard_normal((48, 70)).astype(np.float16)
    mask = bsr.from_dense(rng.standard_normal((70, 64)).astype(np.float16), (32, 32), mask=pattern.mask())
    add = rng.standard_normal(70).astype(np.float32)
    stored = stored_transposed(a, b, mask, add, like=pattern)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).T * mask.to_dense() + add[:, None]
    close(stored.to_dense(), exact * np.kron(pattern.mask(), np.ones((32, 32)))[:70, :64])
    run = bsr.simulate(stored_transposed, a, b, mask, add, like=pattern)
    assert run.findings == []
    close(run.result.values, stored.values)


def test_the_simulator_runs_the_ptx(operands, rng) -> None:
    w, x = operands
    bias, scale = rng.standard_normal(130).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    run = bsr.simulate(ffn_up, w, x, bias, 0.5)
    assert run.findings == [] and run.flops >= 2 * w.nnzb * 64 * 32 * 40 and run.cycles > 0
    close(run.result, ffn_up(w, x, bias))
    run = bsr.simulate(norms, w, x, scale, seed=3)
    result, rows = norms(w, x, scale)
    close(run.result, result)
    close(run.rows, rows)
    pattern = bsr.Pattern.from_mask(rng.random((2, 3)) < 0.7, (64, 70), (32, 32))
    a, b = rng.standard_normal((64, 48)).astype(np.float16), rng.standard_normal((48, 70)).astype(np.float16)
    run = bsr.simulate(scores, a, b, 0.25, like=pattern)
    assert run.findings == []
    close(run.result.values, scores(a, b, 0.25, like=pattern).values)


def test_tensors_are_taken(operands, rng) -> None:
    torch = pytest.importorskip("torch")
    w, x = operands
    v = bsr.BsrMatrix(torch.from_numpy(w.values), w.pattern)
    bias = torch.randn(130)
    result = ffn_up(v, torch.from_numpy(x), bias)
    assert isinstance(result, torch.Tensor) and np.array_equal(result.numpy(), ffn_up(w, x, bias.numpy()))
    assert torch.equal(bsr.simulate(plain, v, torch.from_numpy(x)).result, plain(v, torch.from_numpy(x)))
    with pytest.raises(bsr.Error, match="`bias` is on meta"):
        ffn_up(v, torch.from_numpy(x), bias.to("meta"))
    with pytest.raises(bsr.Error, match="one operand is on cpu and the other on meta"):
        plain(v, torch.from_numpy(x).to("meta"))
    with pytest.raises(bsr.Error, match="torch.no_grad"):
        ffn_up(v, torch.from_numpy(x), bias.requires_grad_())


@pytest.mark.gpu
def test_kernels_on_a_gpu(rng) -> None:
    import torch

    w = bsr.from_dense(torch.randn(512, 384, device="cuda", dtype=torch.float16) / 8, (64, 32), keep=0.5)
    x, bias = torch.randn(384, 200, device="cuda", dtype=torch.float16), torch.randn(512, device="cuda")
    scale = torch.randn(200, device="cuda")
    host = w.to("cpu")
    close(plain(w, x).cpu(), plain(host, x.cpu()))
    close(ffn_up(w, x, bias).cpu(), ffn_up(host, x.cpu(), bias.cpu()))
    for found, expected in zip(norms(w, x, scale), norms(host, x.cpu(), scale.cpu())):
        close(found.cpu(), expected, 5e-3)
    v = bsr.from_dense(torch.randn(128, 192, device="cuda", dtype=torch.float16) / 8, (64, 64), keep=0.7)
    a, add = torch.randn(50, 128, device="cuda", dtype=torch.float16), torch.randn(50, device="cuda")
    res = torch.randn(50, 192, device="cuda")
    close(right(a, v, add, res).cpu(), right(a.cpu(), v.to("cpu"), add.cpu(), res.cpu()))
    pattern = bsr.Pattern.from_mask(rng.random((4, 6)) < 0.5, (128, 192), (32, 32))
    b = torch.randn(50, 192, device="cuda", dtype=torch.float16)
    found, expected = scores(a.t(), b, 0.25, like=pattern), scores(a.t().cpu(), b.cpu(), 0.25, like=pattern)
    close(found.values.cpu(), expected.values)


@pytest.mark.gpu
def test_values_of_blocks_are_an_operand_on_a_gpu(rng) -> None:
    import torch

    pattern = bsr.Pattern.from_mask(rng.random((4, 6)) < 0.5, (128, 192), (32, 32))
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.float16) for shape in [(192, 64), (64, 128)])
    add = torch.randn(128, device="cuda")
    for _ in range(2):
        mask = bsr.BsrMatrix(torch.randn(pattern.nnzb, 32, 32, device="cuda", dtype=torch.float16), pattern)
        found = stored_transposed(a, b, mask, add, like=pattern)
        expected = stored_transposed(a.cpu(), b.cpu(), mask.to("cpu"), add.cpu(), like=pattern)
        close(found.values.cpu(), expected.values)


def refusal(make) -> str:
    with pytest.raises(bsr.Error) as refused:
        make()
    return str(refused.value)


def line_of(text: str) -> int:
    """The number of the line of this file that has a text."""
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


def test_a_refusal_points_at_the_line() -> None:
    def make() -> None:
        @bsr.kernel(bm=64, bn=64, bk=32)
        def wrong(a: Bsr["f16"], b: Dense["f16"], bias: Rows["f32"]) -> Dense["f16"]:
            x = geluu(acc)
            return x + bais

    words = refusal(make)
    assert f"test_kernels.py:{line_of('x = geluu(acc)')}:17" in words and "did you mean `gelu`?" in words
    assert f"test_kernels.py:{line_of('return x + bais')}:24" in words and "did you mean `bias`?" in words
    assert "            x = geluu(acc)\n" in words


def test_a_plan_that_is_refused_points_at_the_setting() -> None:
    def make() -> None:
        @bsr.kernel(bm=64, bn=60, bk=32)
        def wrong(a: Bsr["f16"], b: Dense["f16"]) -> Dense["f16"]: ...

    words = refusal(make)
    assert f"test_kernels.py:{line_of('bn=60')}:28" in words and "bn = 32 or 64" in words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x ** 2", ["`**` is no operation", "x * x"]),
        ("return math.exp(acc)", ["plain names, not `math.exp`", "exp(..)"]),
        ("return acc < 3", ["a comparison is no number"]),
        ("return acc if 1 < acc < 3 else 0", ["not one comparison"]),
        ("acc += 1\n    return acc", ["`acc += 1`", "return"]),
        ("if acc < 3:\n        return acc\n    return 3", ["`if` statement", "x if a < b else y"]),
        ("x = acc", ["returns its result"]),
        ("return acc[0]", ["no part of an epilogue"]),
        ("return exp(x=acc)", ["plain arguments"]),
        ("return 'text'", ["no part of an epilogue"]),
        ("...", ["`bias` is for the epilogue"]),
    ],
)
def test_what_is_no_epilogue(tmp_path, body, words) -> None:
    header = "import bsr_gemm as bsr\nfrom bsr_gemm import *\n@bsr.kernel(bm=64, bn=64, bk=32)\n"
    signature = 'def wrong(a: Bsr["f16"], b: Dense["f16"], bias: Rows["f32"]) -> Dense["f16"]:\n'
    found = refused_file(tmp_path, f"{header}{signature}    {body}\n")
    for word in words:
        assert word in found, found


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        (
            '(a: Dense["f16"], b: Dense["f16"]) -> Dense["f16"]',
            ["one of the three matrices", "(Dense, Dense) -> Dense"],
        ),
        ('(a: Bsr["f16"]) -> Dense["f16"]', ["two operands, not 1"]),
        ('(a: Bsr, b: Dense["f16"]) -> Dense["f16"]', ["`Bsr` lacks its element type"]),
        ('(a: Bsr["f61"], b: Dense["f16"]) -> Dense["f16"]', ["`a` cannot be `f61`", "f16"]),
        ('(a: Bsr["f16"], b: Dense["f16"], *more) -> Dense["f16"]', ["fixed list of parameters"]),
        ('(a: Bsr["f16"], b: Dense["f16"], x: Rows["f32"] = "a") -> Dense["f16"]', ["default of `x` is no number"]),
        ('(a: Bsr["f16"], b: Dense["f16"]) -> tuple[Dense["f16"], Cols["f32"]]', ["second result is `Rows"]),
    ],
)
def test_what_is_no_signature(tmp_path, signature, words) -> None:
    header = "import bsr_gemm as bsr\nfrom bsr_gemm import *\n@bsr.kernel(bm=64, bn=64, bk=32)\n"
    found = refused_file(tmp_path, f"{header}def wrong{signature}: ...\n")
    assert ".py:4:" in found
    for word in words:
        assert word in found, found


def refused_file(tmp_path, text: str) -> str:
    import importlib.util

    path = tmp_path / "wrong_kernel.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("wrong_kernel", path)
    return refusal(lambda: spec.loader.exec_module(importlib.util.module_from_spec(spec)))


def test_brackets_stand_where_they_are_needed(tmp_path) -> None:
    bodies = {
        "(acc + bias) * 2 - (acc - (bias - 1))": "(acc + bias) * 2 - (acc - (bias - 1))",
        "-acc * bias / (acc / bias)": "-acc * bias / (acc / bias)",
        "-(acc + bias)": "-(acc + bias)",
        "bf16(acc + bias) + f16(acc)": "((acc + bias) as bf16) + (acc as f16)",
        "1e-3 * select(acc <= bias, acc, 2)": "0.001 * select(acc <= bias, acc, 2)",
    }
    for at, (body, expected) in enumerate(bodies.items()):
        path = tmp_path / f"kernel_{at}.py"
        path.write_text(
            "import bsr_gemm as bsr\nfrom bsr_gemm import *\n@bsr.kernel(bm=64, bn=64, bk=32)\n"
            f'def k(a: Bsr["f16"], b: Dense["f16"], bias: Rows["f32"]) -> Dense["f16"]:\n    return {body}\n'
        )
        import importlib.util

        spec = importlib.util.spec_from_file_location(f"kernel_{at}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.k.epilogue == f"|bias: Rows<f32>| {expected}"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w, x: plain(w, x, 1.0), ["3 operands, and the kernel takes 2"]),
        (lambda w, x: ffn_up(w, x), ["`bias` is not given"]),
        (lambda w, x: ffn_up(w, x, bias=np.ones(3, np.float32)), ["`bias` is 3 of f32", "130 of f32"]),
        (lambda w, x: ffn_up(w, x, bais=1), ["`bais` is no operand"]),
        (lambda w, x: plain(x, x), ["`a` is a ndarray, not a BsrMatrix"]),
        (lambda w, x: plain(w, x.astype(np.float32)), ["`b` is of f32, and the kernel multiplies f16"]),
        (lambda w, x: plain(w, x[:5]), ["do not fit", "5 x 40", "130 x 96"]),
        (lambda w, x: plain(bsr.from_dense(w.to_dense(), (32, 32)), x), ["blocks of 32 x 32", "blocks of 64 x 32"]),
        (lambda w, x: bsr.Kernel("bm = 64, bn = 64, bk = 32, stages = many"), ["<spec>:1:37", "`stages`"]),
    ],
)
def test_calls_that_do_not_fit(operands, call, words) -> None:
    found = refusal(lambda: call(*operands))
    for word in words:
        assert word in found, found


def command(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "bsr_gemm", *args], capture_output=True, text=True, check=False)


def test_the_command() -> None:
    assert command("--version").stdout.strip() == f"bsr {bsr.__version__}"
    planned = command("plan", "bm = 64, bn = 64, bk = 32")
    assert planned.returncode == 0 and bsr.Kernel("bm = 64, bn = 64, bk = 32").plan.strip() in planned.stdout
    refused = command("plan", "bm = 64, bn = 60, bk = 32")
    assert refused.returncode == 2 and "bn = 32 or 64" in refused.stderr


def test_a_choice_is_explained(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((512, 512)).astype(np.float16), (128, 128), keep=0.5)
    for transpose in (False, True):
        words = bsr.explain(w, 4096, transpose=transpose)
        assert "kernel    bm = 128" in words and "because" in words and ("transpose = on" in words) == transpose
    assert "to(torch.bfloat16)" in refusal(lambda: bsr.explain(w.to(np.float32), 4096, transpose=True))
    words = plain.explain(4096, 4096, 4096)
    assert "kernel    bm = 64" in words and "because" in words
    with pytest.raises(bsr.Error, match="--pattern|pattern"):
        plain.explain(4096, 4096, 4096, pattern="nonsense")


def test_a_measurement_without_a_gpu_is_refused() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        assert "TFLOP/s" in plain.bench(1024, 256, 1024)
    else:
        with pytest.raises(bsr.Error, match="driver|GPU|device"):
            plain.bench(1024, 256, 1024)


@pytest.mark.parametrize(
    ("body", "help"),
    [
        ("acc % 2.0", r"the operators are `\+ - \* /`"),
        ("if acc > 1.0 && acc < 2.0 { acc } else { 0.0 }", "`if` takes one comparison"),
        ("if acc > 1.0 and acc < 2.0 { acc } else { 0.0 }", "write the second as an `if` within its braces"),
    ],
)
def test_operators_that_do_not_exist_are_refused_with_those_that_do(body, help) -> None:
    with pytest.raises(bsr.KernelError, match=help):
        bsr.Kernel(f'bm = 64, bn = 64, bk = 64, epilogue = "|| {body}"')
    bsr.Kernel(
        'bm = 64, bn = 64, bk = 64, epilogue = "|| if acc > 1.0 { if acc < 2.0 { acc } else { 0.0 } } else { 0.0 }"'
    )


def test_a_seed_is_no_negative_number(rng) -> None:
    w, x = bsr.from_dense(np.eye(64, dtype=np.float16), (64, 64)), np.ones((64, 8), np.float16)
    with pytest.raises(bsr.Error, match="seed = -1"):
        bsr.simulate(bsr.Kernel("bm = 64, bn = 64, bk = 64"), w, x, seed=-1)


def test_blocks_that_do_not_lie_one_after_the_other_are_read_as_they_are(rng) -> None:
    kernel = bsr.Kernel('op = sdd, bm = 64, bn = 64, bk = 64, epilogue = "|z: Bsr<f16>| acc * z"')
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 64), (64, 128)))
    z = rng.standard_normal((2, 64, 64)).astype(np.float16)
    pattern = bsr.Pattern.from_mask(np.eye(2), (128, 128), (64, 64))
    lies = z.transpose(0, 2, 1)
    expected = kernel(a, b, lies.copy(), like=pattern)
    assert np.array_equal(kernel(a, b, lies, like=pattern).values, expected.values)
    assert np.array_equal(bsr.simulate(kernel, a, b, lies, like=pattern).result.values, expected.values)


def test_tensors_with_the_other_sign_in_memory() -> None:
    torch = pytest.importorskip("torch")
    from bsr_gemm._lib import _operands

    kernel = bsr.Kernel("bm = 16, bn = 16, bk = 16, dtype = f32, mma = scalar")
    w = bsr.from_dense(torch.randn(32, 32), (16, 16), keep=0.5)
    x = torch.complex(torch.randn(32, 4), torch.randn(32, 4)).conj().imag
    assert x.is_neg()
    for multiply in (kernel, bsr.bsr_gemm, lambda w, x: bsr.linear_batch([x.t()], [w])[0].t()):
        assert torch.allclose(multiply(w, x), w.to_dense() @ x, atol=1e-5)
    assert torch.equal(_operands.operand_of(x)[0][:, :4], x) and not _operands.operand_of(x)[0].is_neg()
    assert not _operands.vector_of(x[:, 0]).is_neg()
