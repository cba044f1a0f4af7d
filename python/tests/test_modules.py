"""A module of the package uses the modules before it in this list, and none after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bsr_gemm

#: From the bottom. Two modules in one line may use each other.
ORDER = """
_arrays
_command
_epilogues
_operands
_operators
_score
_syntax
_traced_words
_traced
_block_flags
_cluster
_mask_arrays
_patterns
_blocks
_conditions
_cpu
_gradients
_tuned
_combined _masks
_gpu
_device_patterns
_launch
_attention_gradient
_sinks
_results
_convert
_device_masks
_places
_exact
_calls
_narrow
_attention_choice
_block_choice
_like_tensor
_torch
_pairs
_matrix _products
_fields
_solvers
_solve
_batches
_float8
_kernel_inputs
_kernel_launch
_kernel_pairs
_kernels
_gradient_lists
_attention_launch
_patterned
_shards
_tuning
_attention_torch
_attention_known
_float8_values
_float8_pages
_float8_blocks
_attention_float8
_attention_float8_known
_block_sparse
_ranges
_layers
_attention
_sequences
_captured
_flex _flex_graph
_pages
_dynamic
_parallel_ops
_sanitize_arguments
_sanitize_report
_sanitize_triton
_sanitize
"""


def imported(node: ast.AST) -> Iterator[str]:
    """The modules beside it that a module imports, in functions too; what only types name is not used."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.ImportFrom) and node.level == 1:
        yield from [node.module.split(".")[0]] if node.module else (alias.name for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def test_modules_use_those_below_them() -> None:
    folder = Path(bsr_gemm.__file__).parent / "_lib"
    layers = [line.split() for line in ORDER.strip().splitlines()]
    level = {name: at for at, layer in enumerate(layers) for name in layer}
    modules = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    assert set(level) == set(modules), "every module has one place in ORDER"
    assert all(len(layer) <= 2 for layer in layers)
    upward = [
        f"{name} uses {used}"
        for name, path in modules.items()
        for used in sorted(set(imported(ast.parse(path.read_text()))) & set(modules))
        if level[used] > level[name]
    ]
    assert not upward, "\n".join(upward)
