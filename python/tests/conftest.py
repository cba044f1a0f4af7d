"""What tests share: random numbers, and GPUs where there are any."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

# jax's arrays are those of the CPU in the tests: on a GPU it would take most of the memory for itself.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

try:
    import torch
except ImportError:
    torch = None

HAS_GPU = torch is not None and torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory) -> None:
    # What sweeps keep is not left behind.
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


def alone(program: str, *args: str, **environment: str) -> str:
    """Runs a program in a process of its own, and returns what it printed."""
    command, environment = [sys.executable, "-c", program, *args], os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def captured(step, warm_ups: int = 1):
    """A CUDA graph of a step, and what the step returned in it. The step has run before, on a stream of its own: what launches need
    for each stream is made in the capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_ups):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    return graph, found


@pytest.fixture
def rng() -> np.random.Generator:
    if torch is not None:
        torch.manual_seed(0)
    return np.random.default_rng(0)


def pytest_configure(config) -> None:
    # As in pyproject.toml, which is not beside the tests on a machine that has only the wheel.
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")


#: The files that take longest. They come first, so that no process is left with one of them when the others have ended.
LONGEST = ("test_documents", "test_cluster", "test_device_masks", "test_attention", "test_flex_graphs", "test_flex")


def pytest_collection_modifyitems(items) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU of compute capability 9.0, and there is none here")
    for item in items:
        if "gpu" in item.keywords and not HAS_GPU:
            item.add_marker(skip)


def pytest_report_header() -> str:
    with_torch = "no PyTorch" if torch is None else f"PyTorch {torch.__version__}"
    gpu = torch.cuda.get_device_name() if HAS_GPU else "NO GPU: tests marked `gpu` are skipped"
    return f"bsr_gemm with {with_torch}; {gpu}"
