"""A graph of cuDNN's frontend with one attention."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .problem import Problem


def attention(problem: Problem) -> Callable[[], torch.Tensor]:
    """The launch of an attention, by the first plan that cuDNN proposes."""
    import cudnn

    case = problem.case
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    kinds = {"io_data_type": cudnn.data_type.BFLOAT16, "handle": handle}
    for computed in ("intermediate_data_type", "compute_data_type"):
        kinds[computed] = cudnn.data_type.FLOAT
    graph = cudnn.pygraph(**kinds)
    q, k, v = (graph.tensor_like(x) for x in (problem.q, problem.k, problem.v))
    given = {q: problem.q, k: problem.k, v: problem.v}
    how: dict = {}
    if case.mask != "full":
        how = {"diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
    if case.mask == "window":
        how["diagonal_band_left_bound"] = case.window
    if problem.sinks is not None:
        of_heads = problem.sinks.view(1, -1, 1, 1)
        how["sink_token"] = graph.tensor_like(of_heads)
        given[how["sink_token"]] = of_heads
    o, _ = graph.sdpa(name="sdpa", q=q, k=k, v=v, generate_stats=False, attn_scale=problem.scale, **how)
    out = problem.q.new_empty((*problem.q.shape[:3], case.columns[1]))
    o.set_output(True).set_dim(list(out.shape)).set_stride(list(out.stride()))
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    space = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    given[o] = out

    def run() -> torch.Tensor:
        graph.execute(given, space, handle=handle)
        return out

    return run
