"""Who is timed: of each row the launches of everyone who may compute it, whose results are seen as problems x heads x queries
x columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from ..suite import Entry, Peer
from .problem import PAGE, Problem


def ours(problem: Problem) -> Iterator[Entry]:
    """`bsr_gemm.attention` as it chooses by itself, then with blocks that the caller fixes."""
    import bsr_gemm as bsr

    case, tensors = problem.case, (problem.q, problem.k, problem.v)
    how = {"mask": case.condition, "sinks": problem.sinks}
    yield Entry("bsr", lambda: bsr.attention(*tensors, **how))
    if case.queries > 16:
        for block in ((128, 128), (128, 64), (64, 64), (192, 128)):
            yield Entry("bsr, {} x {}".format(*block), lambda block=block: bsr.attention(*tensors, block=block, **how))


def ours_paged(problem: Problem) -> Iterator[Entry]:
    """`bsr_gemm.paged_attention` on the pages that FlashInfer reads."""
    import bsr_gemm as bsr

    k, v, table = problem.pages
    lengths = torch.full((problem.case.problems,), problem.case.keys, dtype=torch.int32, device="cuda")
    pages = bsr.PageTable(table, lengths)
    yield Entry("bsr, pages", lambda: bsr.paged_attention(problem.q, k, v, pages, kv_layout="NHD"))


def torch_sdpa(problem: Problem) -> Iterator[Entry]:
    """PyTorch's, as it chooses by itself and by each of its backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    case = problem.case
    if case.mask == "window" or case.sinks:
        return
    how = {"is_causal": case.mask == "causal", "enable_gqa": case.heads != case.key_heads}

    def attend() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(problem.q, problem.k, problem.v, **how)

    def by(backend: SDPBackend) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            with sdpa_kernel(backend):
                return attend()

        return run

    yield Entry("SDPA", attend)
    yield Entry("SDPA, cuDNN", by(SDPBackend.CUDNN_ATTENTION))
    # The memory-efficient backend has no grouped heads.
    yield Entry("SDPA, flash", by(SDPBackend.FLASH_ATTENTION))


def flex(problem: Problem) -> Iterator[Entry]:
    """FlexAttention of windows, compiled; sinks through its LSE, as transformers has them."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    case = problem.case
    if case.mask != "window":
        return

    def counts(b: object, h: object, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return (i >= j) & (i - j < case.window)

    mask = create_block_mask(counts, None, None, case.queries, case.keys, device="cuda", _compile=True)
    gqa = case.heads != case.key_heads

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
        if sinks is None:
            return flex_attention(q, k, v, block_mask=mask, enable_gqa=gqa)
        out, lse = flex_attention(q, k, v, block_mask=mask, enable_gqa=gqa, return_lse=True)
        return (out * torch.sigmoid(lse - sinks[:, None])[..., None]).to(q.dtype)

    compiled = torch.compile(attend, dynamic=False)
    yield Entry("FlexAttention", lambda: compiled(problem.q, problem.k, problem.v, problem.sinks))


def flash_attention_4(problem: Problem) -> Iterator[Entry]:
    """FlashAttention 4."""
    from flash_attn.cute.interface import flash_attn_func

    case = problem.case
    q, k, v = (x.transpose(1, 2).contiguous() for x in (problem.q, problem.k, problem.v))
    how: dict = {"causal": case.mask == "causal"}
    if case.mask == "window":
        how = {"window_size": (case.window - 1, 0)}
    if problem.sinks is not None:
        how["learnable_sink"] = problem.sinks.bfloat16()

    def first(found: object) -> torch.Tensor:
        out = found[0] if isinstance(found, tuple) else found
        return out.transpose(1, 2)

    yield Entry("FlashAttention 4", lambda: flash_attn_func(q, k, v, **how), first)


def flashinfer(problem: Problem) -> Iterator[Entry]:
    """FlashInfer's decode over pages of 64 keys: on CUDA cores, on tensor cores (FA2), and XQA, its choice on Hopper."""
    from flashinfer.decode import BatchDecodeWithPagedKVCacheWrapper, xqa_batch_decode_with_kv_cache

    case = problem.case
    k, v, table = problem.pages
    q = problem.q[:, :, 0].contiguous()
    starts = torch.arange(case.problems + 1, dtype=torch.int32) * table.shape[1]
    last = torch.full((case.problems,), PAGE, dtype=torch.int32)

    def whole(found: object) -> torch.Tensor:
        return found[:, :, None]  # type: ignore[index]

    for words, tensor_cores in (("tensor cores", True), ("CUDA cores", False)):
        space = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
        how = {"use_tensor_cores": tensor_cores, **({"backend": "fa2"} if tensor_cores else {})}

        def planned(space: torch.Tensor = space, how: dict = how) -> Callable[[], object]:
            wrapper = BatchDecodeWithPagedKVCacheWrapper(space, "NHD", **how)
            kinds = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
            sizes = (case.heads, case.key_heads, case.columns[0], PAGE)
            wrapper.plan(starts, table.reshape(-1), last, *sizes, **kinds)
            return lambda: wrapper.run(q, (k, v))

        yield Entry(f"FlashInfer, {words}", Planned(planned), whole)
    lengths = torch.full((case.problems,), case.keys, dtype=torch.int32, device="cuda")
    zeros = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    how = {"bmm1_scale": problem.scale, "bmm2_scale": 1.0, "kv_layout": "NHD"}
    yield Entry(
        "FlashInfer, XQA",
        lambda: xqa_batch_decode_with_kv_cache(q, (k, v), zeros, table, lengths, case.keys, **how),
        whole,
    )


class Planned:
    """A launch that is planned at its first call, so that a plan that fails is a peer that refuses."""

    def __init__(self, plan: Callable[[], Callable[[], object]]) -> None:
        self._plan = plan
        self._run: Callable[[], object] | None = None

    def __call__(self) -> object:
        """Launches."""
        if self._run is None:
            self._run = self._plan()
        return self._run()


def cudnn(problem: Problem) -> Iterator[Entry]:
    """cuDNN through its frontend, which has windows and sinks."""
    from .cudnn_graph import attention

    yield Entry("cuDNN", attention(problem))


OF_GROUP: dict[str, tuple[Peer, ...]] = {
    "decode": (ours, ours_paged, torch_sdpa, flashinfer),
    "d64": (ours, torch_sdpa, flash_attention_4, cudnn),
    "sinks": (ours, flex, cudnn, flash_attention_4),
    "wide": (ours, torch_sdpa, flash_attention_4, flex, cudnn),
}
