"""Arrays of other libraries: through DLPack and ``__cuda_array_interface__``, without a copy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from conftest import alone

import bsr_gemm as bsr
from bsr_gemm._lib import _arrays

torch = pytest.importorskip("torch")


class ThroughDlpack:
    """An array of a library that knows DLPack alone."""

    def __init__(self, array) -> None:
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ThroughCuda:
    """An array of a library that knows ``__cuda_array_interface__`` alone."""

    def __init__(self, interface: dict, keep) -> None:
        self.__cuda_array_interface__ = interface
        self.keep = keep


def test_dlpack_is_a_view(rng) -> None:
    x = torch.randn(48, 8)
    for array in (x, x.numpy()):
        seen = _arrays.as_array(ThroughDlpack(array))
        assert _arrays.address_of(seen) == x.data_ptr() and tuple(seen.shape) == (48, 8)
    w = bsr.from_dense(torch.randn(64, 48), (16, 16), keep=0.5)
    assert torch.equal(w @ ThroughDlpack(x), w @ x)
    assert torch.equal(bsr.linear(ThroughDlpack(x.t()), w), bsr.linear(x.t(), w))
    assert torch.equal(
        bsr.sddmm(ThroughDlpack(torch.ones(64, 3)), torch.ones(3, 48), w).values, torch.full((6, 16, 16), 3.0)
    )


def test_jax_arrays_are_multiplied(rng) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed: its arrays are not tested")
    dense, x = (jax.random.normal(jax.random.key(seed), shape) for seed, shape in ((0, (64, 48)), (1, (48, 8))))
    w = bsr.from_dense(dense, (16, 16), keep=0.5)
    result = np.asarray(w @ x)
    assert np.allclose(result, np.asarray(w.to_dense()) @ np.asarray(x), atol=1e-5)
    assert np.array_equal(np.asarray(jax.numpy.asarray(w @ x)), result), "and back"
    half = x.astype(jax.numpy.bfloat16)
    assert (bsr.from_dense(dense.astype(jax.numpy.bfloat16), (16, 16)) @ half).dtype == torch.bfloat16


def test_jax_arrays_are_multiplied_without_torch() -> None:
    pytest.importorskip("jax", reason="jax is not installed: its arrays are not tested")
    program = (
        "import sys, jax.numpy as jnp, numpy as np, bsr_gemm as bsr; x = jnp.ones((4, 8), jnp.bfloat16); "
        "w = bsr.from_dense(jnp.eye(8, dtype=jnp.bfloat16), (4, 4)); y = bsr.linear(x, w); "
        "z = bsr.linear(jnp.ones((4, 8)), bsr.from_dense(np.eye(8, dtype=np.float32), (4, 4))); "
        "assert 'torch' not in sys.modules and y.dtype.name == 'bfloat16' and (y == 1).all() and (z == 1).all()"
    )
    alone(program)


def test_an_array_on_a_gpu_that_is_not_there_is_refused_in_words() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    interface = {"shape": (2, 2), "typestr": "<f4", "data": (16, False), "version": 3}
    with pytest.raises(bsr.Error, match="a ThroughCuda is on a GPU according to `__cuda_array_interface__`"):
        _arrays.as_array(ThroughCuda(interface, None))


@pytest.mark.parametrize("stream", [None, 1, 4096])
def test_the_interface_is_what_pytorch_is_given(monkeypatch, rng, stream) -> None:
    memory = np.ascontiguousarray(rng.standard_normal((48, 8)).astype(np.float32))
    interface = {"shape": memory.shape, "typestr": "<f4", "data": (memory.ctypes.data, False), "version": 3}
    array, waited = ThroughCuda(interface | {"stream": stream}, memory), []

    def as_tensor(given, device):
        # As PyTorch does on a GPU: a view of the memory that the interface names.
        assert given is array and device == "cuda"
        said = given.__cuda_array_interface__
        line = (ctypes.c_float * (48 * 8)).from_address(said["data"][0])
        return torch.frombuffer(line, dtype=torch.float32).view(said["shape"])

    class Stream:
        def __init__(self, number="default") -> None:
            self.number = number

        def wait_stream(self, other) -> None:
            waited.append(other.number)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "as_tensor", as_tensor)
    monkeypatch.setattr(torch.cuda, "ExternalStream", Stream)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    w = bsr.from_dense(torch.randn(64, 48), (16, 16), keep=0.5)
    assert torch.equal(w @ array, w @ torch.from_numpy(memory))
    assert waited == {None: [], 1: ["default"], 4096: [4096]}[stream]


def test_arrays_that_are_not_aligned_are_copied(rng) -> None:
    x = np.frombuffer(b"\0" + rng.standard_normal((48, 8)).tobytes(), dtype=np.float64, offset=1).reshape(48, 8)
    assert not x.flags.aligned and _arrays.as_array(x).flags.aligned
    w = bsr.from_dense(rng.standard_normal((64, 48)), (16, 16), keep=0.5)
    assert np.array_equal(w @ x, w @ x.copy())


@pytest.mark.gpu
def test_arrays_on_a_gpu_are_views(rng) -> None:
    w = bsr.from_dense(torch.randn(64, 48, device="cuda", dtype=torch.float16), (16, 16), keep=0.5)
    x = torch.randn(48, 8, device="cuda", dtype=torch.float16)
    stream = torch.cuda.Stream()
    interface = x.__cuda_array_interface__ | {"stream": stream.cuda_stream, "version": 3}
    for array in (ThroughDlpack(x), ThroughCuda(x.__cuda_array_interface__, x), ThroughCuda(interface, x)):
        assert _arrays.as_array(array).data_ptr() == x.data_ptr()
        assert torch.equal(w @ array, w @ x)


@pytest.mark.gpu
def test_cupy_arrays_are_multiplied(rng) -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: its arrays are not tested")
    dense, x = cupy.random.standard_normal((64, 48)), cupy.random.standard_normal((48, 8))
    w = bsr.from_dense(dense.astype(cupy.float16), (16, 16), keep=0.5)
    result = w @ x.astype(cupy.float16)
    exact = torch.as_tensor(w.to_dense()).double() @ torch.as_tensor(x).double()
    assert torch.allclose(result.double(), exact, atol=0.1, rtol=0.02)
    assert isinstance(cupy.from_dlpack(result), cupy.ndarray)
