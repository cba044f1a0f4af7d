"""Kernels of Triton and PTX text on the simulator: right ones pass with right results, wrong ones are found at their lines."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest

import bsr_gemm as bsr

torch = pytest.importorskip("torch")
try:
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    triton = None


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Triton's cache holds kernels by their text, with the lines of whatever file they were first compiled from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


needs_triton = pytest.mark.skipif(triton is None, reason="Triton is not installed")

if triton is not None:

    @triton.jit
    def add(x, y, out, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < n
        tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)

    @triton.jit
    def add_unmasked(x, y, out, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at))

    @triton.jit
    def softmax(x, out, stride, rows, columns, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        inside = at < columns
        for row in range(tl.program_id(0), rows, tl.num_programs(0)):
            v = tl.load(x + row * stride + at, mask=inside, other=float("-inf"))
            v = tl.exp(v - tl.max(v, axis=0))
            tl.store(out + row * stride + at, v / tl.sum(v, axis=0), mask=inside)

    @triton.jit
    def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        om = tl.program_id(0) * BM + tl.arange(0, BM)
        on = tl.program_id(1) * BN + tl.arange(0, BN)
        ok = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            deep = ok + k * BK
            x = tl.load(
                a + om[:, None] * sam + deep[None, :] * sak, mask=(om[:, None] < M) & (deep[None, :] < K), other=0.0
            )
            y = tl.load(
                b + deep[:, None] * sbk + on[None, :] * sbn, mask=(deep[:, None] < K) & (on[None, :] < N), other=0.0
            )
            acc = tl.dot(x, y, acc)
        tl.store(c + om[:, None] * N + on[None, :], acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))

    @triton.jit
    def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        c.store([m, n], acc.to(tl.float16))

    @triton.jit
    def sums(x, out, BLOCK: tl.constexpr):
        """Every program adds to one place, without an atomic."""
        at = tl.arange(0, BLOCK)
        total = tl.load(out + at) + tl.load(x + tl.program_id(0) * BLOCK + at)
        tl.store(out + at, total)


def line_of(kernel, part: str) -> tuple[str, int]:
    """The file and the line of a kernel that has this part."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (at,) = [number for number, line in enumerate(lines) if part in line]
    return inspect.getsourcefile(kernel.fn), first + at


@needs_triton
def test_vectors_are_added(rng):
    x, y = (torch.from_numpy(rng.standard_normal(300).astype(np.float32)) for _ in range(2))
    out = torch.full((300,), float("nan"))
    report = bsr.sanitize(add, lambda meta: (triton.cdiv(meta["n"], meta["block"]),), (x, y, out, 300), block=128)
    assert report.passed and not report.findings, report
    assert torch.equal(report.arrays["out"], x + y)
    # What was given is as it was.
    assert out.isnan().all() and torch.equal(report.arrays["x"], x)
    assert report.entry == "add" and report.steps > 0 and len(report.schedules) == 4 and ".entry add" in report.ptx


@needs_triton
def test_arrays_of_numpy_and_arguments_by_name(rng):
    x = rng.standard_normal(64)
    values = {"x": x, "y": x, "out": np.full(64, np.nan), "n": 64, "block": 64}
    report = bsr.sanitize(add, 1, values, num_warps=1, check=True)
    assert np.array_equal(report.arrays["out"], x + x)
    # One array that is given twice is one buffer, and a number that is 1 is a constant.
    doubled = bsr.sanitize(add, 1, (x, x, x, 1), block=64, num_warps=1, check=True)
    assert doubled.arrays["out"][0] == 2 * x[0] and np.array_equal(doubled.arrays["x"][1:], x[1:])


@needs_triton
def test_a_softmax_and_its_rows(rng):
    x = torch.from_numpy(rng.standard_normal((3, 100)).astype(np.float32))
    out = torch.full_like(x, float("nan"))
    report = bsr.sanitize(softmax, 2, (x, out, 100, 3, 100), BLOCK=128, schedules=2, check=True)
    torch.testing.assert_close(report.arrays["out"], torch.softmax(x.double(), 1).float())


@needs_triton
def test_a_product_whose_factor_is_transposed(rng):
    a, b = (torch.from_numpy(rng.standard_normal(shape).astype(np.float16)) for shape in ((70, 80), (40, 80)))
    c = torch.full((70, 40), float("nan"), dtype=torch.float16)
    args = (a, b.T, c, 70, 40, 80, *a.stride(), *b.T.stride())
    report = bsr.sanitize(matmul, (2, 2), args, BM=64, BN=32, BK=32, num_warps=4, num_stages=2, schedules=2, check=True)
    exact = a.double() @ b.double().T
    torch.testing.assert_close(report.arrays["c"].double(), exact, rtol=1e-3, atol=1e-2)
    assert report.arrays["b"].stride() == b.T.stride() and torch.equal(report.arrays["b"], b.T)


@needs_triton
def test_a_product_by_tensor_descriptors(rng):
    a, b = (torch.from_numpy(rng.standard_normal(shape).astype(np.float16)) for shape in ((72, 96), (40, 96)))
    c = torch.full((72, 40), float("nan"), dtype=torch.float16)
    tiles = [TensorDescriptor.from_tensor(t, tile) for t, tile in ((a, [64, 64]), (b, [32, 64]), (c, [64, 32]))]
    report = bsr.sanitize(matmul_tma, (2, 2), (*tiles, 96), BM=64, BN=32, BK=64, schedules=2, check=True)
    exact = a.double() @ b.double().T
    torch.testing.assert_close(report.arrays["c"].double(), exact, rtol=1e-3, atol=1e-2)


@needs_triton
def test_a_missing_mask_is_found_at_its_line(rng):
    x, y, out = (np.zeros(100, np.float32) for _ in range(3))
    report = bsr.sanitize(add_unmasked, 1, (x, y, out, 100), block=128)
    found = {finding.source for finding in report.errors}
    assert not report.passed and {finding.kind for finding in report.errors} == {"out-of-bounds"}, report
    assert line_of(add_unmasked, "tl.store") in found, report
    with pytest.raises(bsr.SanitizeError, match=r"error\[out-of-bounds\]") as raised:
        bsr.sanitize(add_unmasked, 1, (x, y, out, 100), block=128, check=True)
    assert raised.value.report.errors


@needs_triton
def test_a_race_of_blocks_is_found_and_may_be_allowed():
    x, out = np.ones(256, np.float32), np.zeros(128, np.float32)
    report = bsr.sanitize(sums, 2, (x, out), BLOCK=128)
    races = [finding for finding in report.errors if finding.kind == "block-race"]
    assert races and not report.passed, report
    places = {place.source.in_kernel for race in races for place in race.places}
    assert places <= {line_of(sums, "total = "), line_of(sums, "tl.store")}, report
    assert "test_sanitize.py" in str(report)
    rules = [f"{place.line}=both add ones" for race in races for place in race.places]
    allowed = bsr.sanitize(sums, 2, (x, out), BLOCK=128, allow=[*rules, "1=no reason"], tolerance=9.0)
    assert allowed.passed, allowed
    assert [finding.allowed for finding in allowed.findings if finding.kind == "block-race"] == ["both add ones"] * len(
        races
    )
    assert any("no reason" in note for note in allowed.notes)


HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
#: Threads hand a value to their neighbours in shared memory.
SHIFT = (
    HEAD
    + """.visible .entry shift(.param .u64 x, .param .u64 out, .param .u32 by, .param .f32 scale, .param .align 4 .b8 more[8])
{
    .reg .b32 %r<9>; .reg .f32 %f<6>; .reg .b64 %d<9>; .reg .pred %p;
    .shared .align 4 .b8 held[256];
    ld.param.u64 %d0, [x]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [by];
    ld.param.f32 %f0, [scale]; ld.param.f32 %f1, [more+4];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
    add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;
    ld.global.f32 %f2, [%d3];
    mov.u32 %r2, held; mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.f32 [%r3], %f2;
    bar.sync 0;
    add.u32 %r4, %r1, %r0; and.b32 %r4, %r4, 63; mad.lo.u32 %r5, %r4, 4, %r2;
    ld.shared.f32 %f3, [%r5];
    fma.rn.f32 %f4, %f3, %f0, %f1;
    st.global.f32 [%d4], %f4;
    ret;
}
"""
)


def shift(text: str = SHIFT, args=None, **kwargs):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    more = np.array([0, 3], np.float32)
    return bsr.sanitize(text, 1, (x, out, 1, 2, more) if args is None else args, **{"block": 64} | kwargs)


def test_ptx_takes_arrays_numbers_and_structures():
    report = shift(check=True)
    assert np.array_equal(report.arrays[1], np.roll(np.arange(64), -1) * 2 + 3)
    named = {"x": torch.arange(64).float(), "out": torch.zeros(64), "by": np.int32(-1), "scale": 1.5, "more": bytes(8)}
    report = shift(args=named, check=True)
    assert torch.equal(report.arrays["out"], torch.arange(64).roll(1) * 1.5)
    # A number is no address of anything.
    assert [f.kind for f in shift(args={**named, "out": 4096}).errors] == ["out-of-bounds"]


def test_a_wrong_barrier_is_found_at_its_line():
    report = shift(SHIFT.replace("    bar.sync 0;\n", ""))
    (race,) = [finding for finding in report.errors if finding.kind == "race"]
    lines = report.ptx.splitlines()
    assert "ld.shared" in lines[race.line - 1] and race.source is None, report
    # A barrier that one of two warps never reaches.
    report = shift(SHIFT.replace("bar.sync 0;", "setp.lt.u32 %p, %r1, 32; @%p bar.sync 0, 64;"))
    assert "deadlock" in {finding.kind for finding in report.errors}, report


#: One thread copies a tile by a tensor map and hands it on.
COPY = (
    HEAD
    + """.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
    .shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.b64 %d0, map; cvta.param.u64 %d0, %d0; ld.param.u64 %d1, [out];
    @%p0 mbarrier.init.shared.b64 [%r3], 1;
    @%p0 fence.proxy.async;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
    mov.u32 %r6, 4; mov.u32 %r7, 0;
    @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d0, {%r6, %r7}], [%r3];
wait:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;
    @!%p1 bra wait;
    mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %r5;
    ret;
}
"""
)


def test_ptx_takes_tensor_maps():
    x, out = np.arange(8 * 12, dtype=np.int32).reshape(8, 12), np.zeros((8, 8), np.int32)
    args = (bsr.TensorMap(x, box=(8, 8)), out)
    report = bsr.sanitize(COPY, 1, args, block=64, check=True)
    assert np.array_equal(report.arrays[1], x[:, 4:])
    wrong = bsr.sanitize(COPY, 1, (bsr.TensorMap(x, box=(8, 4)), out), block=64, max_steps=20_000, schedules=1)
    assert not wrong.passed and any("tile" in f.message or f.kind == "deadlock" for f in wrong.errors), wrong
    with pytest.raises(bsr.Error, match="swizzle spans 0, 32, 64 or 128 bytes, not 7"):
        bsr.sanitize(COPY, 1, (bsr.TensorMap(x, box=(8, 8), swizzle=7), out), block=64)
    with pytest.raises(bsr.Error, match="the launch cannot be made"):
        bsr.sanitize(COPY, 1, (bsr.TensorMap(x, box=(300, 8)), out), block=64)


X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            (X, X.copy(), 1, 2),
            r"takes 5 parameters: `x` .u64, .*`more` .b8\[8\]\n  given are 4: 0: an array of float32 \(64\)",
        ),
        ((X, X.copy(), 0.5, 2, bytes(8)), r"argument 2 is 0.5, and the parameter `by` .u32 is an integer"),
        ((X, X.copy(), 2**40, 2, bytes(8)), r"argument 2 is 1099511627776, and the parameter `by` .u32 has 32 bits"),
        (
            (X, X.copy(), X, 2, bytes(8)),
            r"argument 2 is an array of float32 \(64\), and the parameter `by` .u32 holds no",
        ),
        ((X, X.copy(), "1", 2, bytes(8)), r"argument 2 is a str"),
        ((X, X.copy(), 1, 2, bytes(4)), r"argument 4 has 4 bytes, and the parameter is `more` .b8\[8\]"),
        (
            (np.zeros((64, 2), np.float32)[:, 0], X, 1, 2, bytes(8)),
            r"argument 0 is .* with strides \[2\]: its elements do not",
        ),
        ((X, X[1:], 1, 2, bytes(8)), r"argument 1 and argument 0 are parts of one array that overlap"),
        ((X.astype(complex), X, 1, 2, bytes(8)), r"argument 0 is an array of complex128 \(64\)"),
        (
            (torch.zeros(64, device="meta"), X, 1, 2, bytes(8)),
            r"argument 0 is on meta, and the simulator runs on the CPU",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, words):
    with pytest.raises(bsr.Error, match=words):
        shift(args=args)


def test_what_is_no_launch_is_refused(tmp_path):
    both = SHIFT + SHIFT.split("64\n", 1)[1].replace("shift", "again")
    for text, kwargs, words in [
        (both, {}, "has 2 kernels: shift, again\n  help: name one by entry="),
        (both, {"entry": "other"}, "has no kernel `other`"),
        (SHIFT.replace("bar.sync", "bra.sync"), {}, "PTX:15:"),
        (SHIFT, {"block": None}, "how many threads a block has"),
        (SHIFT, {"block": 2048}, "a block has 1 to 1024 threads"),
        (SHIFT, {"shared": 1 << 20}, "bytes of shared memory"),
        (SHIFT, {"schedules": 0}, "schedules is 0"),
        (SHIFT, {"allow": ["here"]}, "allow: write LINE=REASON"),
        (SHIFT, {"blocks": 3}, "`blocks` is no argument of a launch of PTX"),
        ("kernel.ptx", {}, r"pathlib.Path\('kernel.ptx'\)"),
        (shift, {}, "the kernel is a function"),
    ]:
        with pytest.raises(bsr.Error, match=words):
            shift(text, **kwargs)
    with pytest.raises(bsr.Error, match=r"grid is \(1, 0\)"):
        bsr.sanitize(SHIFT, (1, 0), (), block=64)
    path = tmp_path / "shift.ptx"
    path.write_text(both)
    assert shift(path, entry="again").entry == "again"


@needs_triton
def test_arguments_of_triton_that_do_not_fit_are_refused():
    x = np.zeros(64, np.float32)
    for kernel, args, kwargs, words in [
        (
            add,
            (x, x, x),
            {"block": 64},
            "n: not given\n  help: the kernel takes x, y, out, n, block; given are x, y, out",
        ),
        (add, (x,) * 6, {}, "6 arguments are given, and the kernel takes 5"),
        (add, (x, x, x, 64), {"BLOCK": 64}, "`BLOCK` is no argument of the kernel and no option"),
        (add, (x, x, x, 64), {"x": x, "block": 64}, "`x` is given twice"),
        (add, (x, x, x, "n"), {"block": 64}, "`n` is a str"),
        (
            triton.autotune([triton.Config({"block": 64})], key=["n"])(add),
            (x, x, x, 64),
            {},
            "is a Autotuner of Triton",
        ),
    ]:
        with pytest.raises(bsr.Error, match=words):
            bsr.sanitize(kernel, 1, args, **kwargs)
