"""Compiles the kernels of `kernels.py` with Triton 3.6 for sm_90; needs no GPU. The texts have no debug sections."""

import re
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels

HERE = Path(__file__).parent


def without_paths(text):
    """No sections for debuggers, no folders of this machine, no comments of the compiler's."""
    text = re.sub(r"^\s*\.section[^{]*\{.*?^\s*\}", "", text, flags=re.S | re.M)
    text = re.sub(r'(\.file\s+\d+) "([^"]*/)?([^"/]*)"', r'\1 "\3"', text)
    text = re.sub(r"^\s*//.*\n", "", text, flags=re.M)
    text = re.sub(r"\s*//.*$", "", text, flags=re.M)
    return re.sub(r"\n\s*\n+", "\n", text)


def named(match):
    """The name of a source file in the bytes of an assertion."""
    path = bytes(int(byte) for byte in match[3].split(","))
    name = path.rsplit(b"/", 1)[-1]
    return f"{match[1]}[{len(name) + 1}] = {{{', '.join(str(byte) for byte in name)}}}"


def compile(name, function, signature, constants, warps=4, stages=3, aligned=(), **options):
    names = function.arg_names
    types = {arg: "constexpr" if arg in constants else signature[arg] for arg in names}
    values = {(names.index(arg),): value for arg, value in constants.items()}
    is_aligned = [arg for arg in names if arg in signature and (signature[arg].startswith("*") or arg in aligned)]
    attributes = {(names.index(arg),): [["tt.divisibility", 16]] for arg in is_aligned}
    options |= dict(num_warps=warps, num_stages=stages)
    made = triton.compile(ASTSource(function, types, values, attributes), target=GPUTarget("cuda", 90, 32), options=options)
    text = re.sub(r"(assertFile_\d+)\[(\d+)\] = \{([^}]*)\}", named, without_paths(made.asm["ptx"]))
    head = f"// Compiled from `{function.__name__}` of kernels.py by Triton {triton.__version__} for sm_90.\n"
    (HERE / f"{name}.ptx").write_text(head + text)
    print(name, made.metadata.num_warps * 32, "threads,", made.metadata.shared, "B,", made.metadata.global_scratch_size)


F, H, I, P = "*fp32", "*fp16", "i32", "*i32"


def tensor(rows, columns):
    return f"tensordesc<fp16[{rows},{columns}]>"


compile("vector_add", kernels.vector_add, dict(x=F, y=F, out=F, n=I), dict(BLOCK=256))
compile("softmax", kernels.softmax, dict(x=F, out=F, stride=I, rows=I, columns=I), dict(BLOCK=512))
compile("layer_norm", kernels.layer_norm, dict(x=F, y=F, weight=F, bias=F, mean=F, rstd=F, stride=I, columns=I, eps="fp32"),
        dict(BLOCK=128))
arrays = ("dx", "dy", "dw", "db", "x", "weight", "mean", "rstd")
compile("layer_norm_gradient", kernels.layer_norm_gradient, dict(**{name: F for name in arrays}, lock=P, stride=I, columns=I),
        dict(GROUPS=2, BLOCK=256))
for name, safe in (("sum_rows", True), ("sum_rows_racy", False)):
    compile(name, kernels.sum_rows, dict(x=F, out=F, lock=P, columns=I), dict(GROUPS=2, BLOCK=256, SAFE=safe))
sizes = dict(M=I, N=I, K=I)
strides = ("sam", "sbk", "scm")
compile("matmul", kernels.matmul, dict(a=H, b=H, c=H, **sizes, **{s: I for s in strides}), dict(BM=64, BN=32, BK=32),
        aligned=("N", "K", *strides))
maps = dict(a=tensor(64, 64), b=tensor(32, 64), c=tensor(64, 32))
compile("matmul_tma", kernels.matmul_tma, dict(**maps, **sizes), dict(BM=64, BN=32, BK=64, SMS=2))
compile("copy_device_tma", kernels.copy_device_tma, dict(a=H, c=H, M=I, N=I), dict(BM=32, BN=64), aligned=("M", "N"))
heads = {name: tensor(64, 64) for name in ("q", "k", "v", "out")}
compile("attention_tma", kernels.attention_tma, dict(**heads, lse=F, L=I, scale="fp32"), dict(BM=64, BN=64, D=64), stages=2)
compile("grouped", kernels.grouped, dict(pointers_x="*i64", pointers_out="*i64", sizes=P, groups=I), dict(BLOCK=128))
places = {name: "*i64" for name in ("pointers_a", "pointers_b", "pointers_c")}
compile("grouped_gemm", kernels.grouped_gemm, dict(**places, sizes=P, groups=I), dict(BM=64, BN=32, BK=32))
compile("histogram", kernels.histogram, dict(x=P, out=P, n=I), dict(BINS=64, BLOCK=256), debug=True)
