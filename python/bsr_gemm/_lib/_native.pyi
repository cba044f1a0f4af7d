"""The native half: plain numbers, strings and addresses."""

from collections.abc import Callable
from typing import final

# Address, element type, rows, columns, and elements from one row and from one column to the next.
_Array = tuple[int, str, int, int, int, int]
_Epilogue = tuple[str, list[tuple[str, _Array]]]
# Rows, columns, whether columns are contiguous, and elements from one line to the next.
_Shape = tuple[int, int, bool, int]
# Name, what it is, element type, rows, columns, elements from one line to the next.
_Further = tuple[str, str, str, int, int, int]

# Address, element type, sizes and strides of four dimensions.
_Tensor = tuple[int, str, list[int], list[int]]

_Sizes = tuple[int, int, int]

__version__: str

class Error(ValueError): ...

@final
class Pattern:
    def __new__(cls, rows: int, cols: int, bm: int, bk: int, row_ptr: bytes, col_idx: bytes) -> Pattern: ...
    rows: int
    cols: int
    block: tuple[int, int]
    nnzb: int
    density: float
    key: str
    def row_ptr(self) -> bytes: ...
    def col_idx(self) -> bytes: ...
    def product(self, b: Pattern) -> Pattern: ...
    def transposed(self) -> tuple[Pattern, bytes]: ...

@final
class Kernel:
    spec: str
    table: str
    ptx: str
    entry: str
    op: str
    transpose: bool
    block: tuple[int, int]
    width: int
    dtypes: tuple[str, str, str]
    layouts: tuple[str, str, str]
    epilogue: str | None
    inputs: list[tuple[str, str]]
    second: str | None

@final
class Gpu:
    def __new__(cls, ordinal: int) -> Gpu: ...
    name: str
    def sparse(self, pattern: Pattern, kind: str) -> Sparse: ...
    def choose(
        self, pattern: Pattern, facts: str, n: int, epilogue: str | None = None, is_list: bool = False
    ) -> Loaded: ...
    def choose_listed(self, pattern: DevicePattern, facts: str, n: int, epilogue: str | None = None) -> Loaded: ...
    def load(self, kernel: Kernel) -> Loaded: ...
    def load_attention(self, kernel: Kernel) -> LoadedAttention: ...
    def load_gradient(self, dq: Kernel, dkv: Kernel) -> LoadedGradient: ...
    def forget(self) -> None: ...
    def leave_free(self, multiprocessors: int) -> None: ...
    def add_tuned(self, lines: str) -> None: ...
    def tune(self, pattern: Pattern, facts: str, n: int) -> tuple[str, str | None]: ...

@final
class Sparse: ...

@final
class DevicePattern:
    def __new__(
        cls,
        gpu: Gpu,
        sizes: tuple[int, int],
        block: tuple[int, int],
        capacity: int,
        wide: bool,
        arrays: tuple[int, int],
    ) -> DevicePattern: ...
    @staticmethod
    def product(a: DevicePattern, b: DevicePattern, capacity: int) -> DevicePattern: ...
    def changed(self) -> None: ...
    def check(self) -> None: ...
    def download(self) -> Pattern: ...
    def sparse(self, kind: str) -> Sparse: ...

@final
class AttentionMask:
    def __new__(
        cls, sizes: tuple[int, int], block: tuple[int, int], sharing: str, lists: list[tuple[bytes, bytes, bytes]]
    ) -> AttentionMask: ...
    @staticmethod
    def generated(rule: str, sizes: tuple[int, int], block: tuple[int, int], numbers: list[float]) -> AttentionMask: ...
    @staticmethod
    def from_pairs(sizes: tuple[int, int], block: tuple[int, int], pairs: bytes) -> AttentionMask: ...
    @staticmethod
    def top_k(sizes: tuple[int, int], block: tuple[int, int], scores: bytes, count: int) -> AttentionMask: ...
    @staticmethod
    def sequences(
        starts: tuple[list[int], list[int]],
        sizes: tuple[int, int],
        block: tuple[int, int],
        window: tuple[int | None, int | None],
    ) -> tuple[AttentionMask, bytes, bytes]: ...
    sizes: tuple[int, int]
    block: tuple[int, int]
    sharing: str
    def pairs(self, batch: int, heads: int) -> int: ...
    def lists(self) -> list[tuple[bytes, bytes, bytes]]: ...

@final
class DeviceMask:
    def __new__(
        cls,
        gpu: Gpu,
        sizes: tuple[int, int],
        block: tuple[int, int],
        per: tuple[str, int],
        capacity: int,
        wide: bool,
        arrays: tuple[int, int, int],
        scored: bool,
    ) -> DeviceMask: ...
    def changed(self) -> None: ...
    def check(self) -> None: ...

@final
class DevicePages:
    def __new__(cls, gpu: Gpu, shape: list[int], table: int, lengths: int) -> DevicePages: ...
    def changed(self) -> None: ...
    def check(self) -> None: ...

@final
class LoadedAttention:
    spec: str
    def work(self, mask: AttentionMask, q: list[int], v: list[int], brings_workspace: bool = ...) -> AttentionWork: ...
    def listed(self, mask: DeviceMask, q: list[int], v: list[int]) -> AttentionWork: ...
    def paged(self, pages: DevicePages, q: list[int], v: list[int]) -> AttentionWork: ...

@final
class AttentionWork:
    workspace: int

@final
class ReadyAttention:
    def __new__(
        cls,
        kernel: LoadedAttention,
        work: AttentionWork,
        tensors: list[tuple[list[int], list[int]]],
        scale: float,
        numbers: list[float],
        vectors: list[tuple[str, int, str]],
        factors: int = 0,
    ) -> ReadyAttention: ...
    def launch(self, q: int, k: int, v: int, o: int, sums: int, stream: int, *vectors: int) -> None: ...
    def launch_in(
        self, workspace: tuple[int, int], q: int, k: int, v: int, o: int, sums: int, stream: int, *vectors: int
    ) -> None: ...

@final
class LoadedGradient:
    score_sums: list[list[int]]
    def work(self, mask: AttentionMask, q: list[int], v: list[int]) -> GradientWork: ...
    def forms(self, q: list[int], v: list[int]) -> list[GradientForm]: ...
    def listed(self, q: list[int], v: list[int], lists: list[tuple]) -> GradientWork: ...

@final
class GradientForm:
    of_keys: bool
    rows: tuple[int, int, int, int]
    consumers: tuple[int, bool]
    words: tuple[int, int, int]
    schedule: tuple[int, int, int]

@final
class GradientWork: ...

@final
class ReadyGradient:
    def __new__(
        cls,
        kernels: LoadedGradient,
        work: GradientWork,
        tensors: list[tuple[list[int], list[int]]],
        scale: float,
        numbers: list[float],
    ) -> ReadyGradient: ...
    workspace: int
    def launch(
        self,
        tensors: list[int],
        lse: int,
        lse_gradient: int,
        workspace: int,
        score_sums: list[int],
        stream: int,
        *vectors: int,
    ) -> None: ...

@final
class Loaded:
    spec: str
    b_layout: str
    why: str

@final
class Ready:
    def __new__(
        cls,
        kernel: Loaded,
        sparse: Sparse,
        pattern: Pattern | None,
        matrices: tuple[_Shape, _Shape],
        further: list[_Further] = ...,
        second: int | None = None,
    ) -> Ready: ...
    def launch(self, values: int, first: int, second: int, stream: int, *further: float) -> None: ...

@final
class ReadyPairs:
    def __new__(
        cls,
        kernel: Loaded,
        a: Pattern | DevicePattern,
        b: Pattern | DevicePattern,
        c: Pattern | DevicePattern | None,
        further: list[tuple[str, str, str, int, int, int]] = ...,
        second: int | None = None,
    ) -> ReadyPairs: ...
    def launch(self, a: int, b: int, c: int, line: int, stream: int, *further: float) -> None: ...

@final
class Batch:
    def __new__(
        cls, kernel: Loaded, problems: list[tuple[Pattern, int, tuple[int, _Shape], tuple[int, _Shape]]]
    ) -> Batch: ...
    def launch(self, stream: int) -> None: ...

@final
class Foreign:
    def __new__(cls, ptx: str, name: str | None = None) -> Foreign: ...
    entry: str
    # Name, bytes, type, and what it is: `value`, `buffer` or `tensor map`.
    params: list[tuple[str, int, str, str]]
    # Threads of a block and blocks of a cluster.
    required: tuple[_Sizes | None, _Sizes | None]
    def run(
        self,
        shape: tuple[_Sizes, _Sizes, _Sizes, int, bool],
        arrays: list[tuple[str, int, int, str, list[int], int, bool]],
        arguments: list[bytes | int | tuple],
        asked: tuple[int, int, int, float | None],
        accepted: list[str],
    ) -> tuple[str, str, list[bytes], list[str]]: ...

def attend(
    mask: AttentionMask,
    tensors: list[_Tensor],
    scale: float,
    score: str | None = None,
    numbers: list[float] = ...,
    vectors: list[_Tensor] = ...,
    sums: _Tensor | None = None,
    sinks: list[float] | None = None,
) -> None: ...
def simulate_attention(
    kernel: Kernel,
    mask: AttentionMask,
    tensors: list[_Tensor],
    scale: float,
    numbers: list[float],
    vectors: list[_Tensor],
    seed: int,
    sinks: list[float] | None = None,
    factors: list[list[float]] | None = None,
) -> tuple[bytes, list[float], list[str], tuple[int, int, int, int]]: ...
def command(program: list[str], args: list[str]) -> int: ...
def card(name: str) -> tuple[str, tuple[int, int]]: ...
def check_table(lines: str) -> int: ...
def choose_attention(
    card: tuple[str, tuple[int, int]],
    candidates: list[tuple[AttentionMask, list[str]]],
    q: list[int],
    v: list[int],
) -> tuple[int, str] | None: ...
def explain_pairs(a: Pattern, b: Pattern, c: Pattern, facts: str, card: tuple[str, tuple[int, int]]) -> str: ...
def explain(
    pattern: Pattern,
    facts: str,
    n: int,
    card: tuple[str, tuple[int, int]],
    tuned: str = "",
    epilogue: str | None = None,
) -> str: ...
def ask_for(bytes: int, what: str) -> None: ...
def multiply(
    pattern: Pattern,
    transpose: bool,
    values: tuple[int, str, int],
    dense: _Array,
    out: _Array,
    epilogue: _Epilogue | None = None,
    second: _Array | None = None,
) -> None: ...
def multiply_sddmm(
    pattern: Pattern,
    a: _Array,
    b: _Array,
    out: _Array,
    epilogue: _Epilogue | None = None,
    second: _Array | None = None,
) -> None: ...
def plan(spec: str) -> tuple[Kernel | None, list[tuple[str, list[str], int, int]]]: ...
def gradient_kernels(spec: str, with_score: bool = False) -> tuple[Kernel, Kernel] | None: ...
def gradient_work(
    kernel: Kernel, mask: AttentionMask, q: list[int], v: list[int], ctas: int
) -> tuple[GradientForm, tuple[list[int], list[int], list[int]]]: ...
def simulate(
    kernel: Kernel, pattern: Pattern, a: _Array, b: _Array, inputs: list[tuple[str, _Array]], seed: int
) -> tuple[bytes, list[float] | None, list[str], tuple[int, int, int, int]]: ...
def simulate_pairs(
    kernel: Kernel,
    patterns: tuple[Pattern, Pattern, Pattern | None],
    a: _Array,
    b: _Array,
    inputs: list[tuple[str, _Array]],
    seed: int,
) -> tuple[bytes, list[float] | None, list[str], tuple[int, int, int, int]]: ...

# The method, the iterations of a cycle of GMRES, and whether block Jacobi preconditions it.
_Method = tuple[str, int, bool]
# rtol, atol and most iterations.
_Limits = tuple[float, float, int | None]

def solve_on_host(
    pattern: Pattern,
    values: tuple[int, str, int],
    vectors: tuple[int, int, str],
    method: _Method,
    limits: _Limits,
    tell: Callable[[float], object] | None = None,
    look: Callable[[], object] | None = None,
) -> tuple[int, int]: ...

@final
class Solver:
    def __new__(
        cls,
        gpu: Gpu,
        pattern: Pattern,
        values: tuple[int, str, int],
        vectors: tuple[int, int, str],
        method: _Method,
    ) -> Solver: ...
    def set_values(self, values: int) -> None: ...
    def set_diagonal(self, diagonal: int) -> None: ...
    def run(
        self,
        limits: _Limits,
        tell: Callable[[float], object] | None = None,
        look: Callable[[], object] | None = None,
    ) -> tuple[int, int]: ...

def field(text: str, seed: int) -> tuple[Pattern, bytearray]: ...
def balanced(weights: list[int], ranks: int) -> list[tuple[int, int]]: ...
