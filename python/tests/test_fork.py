"""Products in processes that were forked from one which multiplied."""

from __future__ import annotations

import os

import pytest
from conftest import alone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

START = """
import multiprocessing, os, signal, sys, threading
import numpy as np, bsr_gemm as bsr

w = bsr.from_dense(np.random.default_rng(0).standard_normal((192, 128)).astype(np.float16), (64, 64), keep=0.6)
x = np.ones((128, 40), np.float16)
kernel = bsr.Kernel("bm = 64, bn = 64, bk = 64, dtype = f16")

def work(_=None):
    signal.alarm(600)  # A process that waits for threads which are gone is ended; the others take a moment.
    assert np.array_equal(w @ x, kernel(w, x)) and bsr.simulate(kernel, w, x).findings == []
    bsr.bsr_gemm(w, np.ones((192, 3), np.float16), transpose=True)
    bsr.sddmm(np.ones((192, 8), np.float16), np.ones((8, 128), np.float16), w)
    return bsr.explain(w, 512)

def child(work):
    number = os.fork()
    if number == 0:
        # Several threads at once start the threads of products.
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        work()
        [thread.join() for thread in threads]
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0

words = work()
"""

WITH_NUMPY = """
child(work)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(work, range(4)) == [words] * 4
"""

WITH_TORCH = """
import torch
q = torch.randn(1, 2, 64, 16, dtype=torch.float16)

def attend():
    out = bsr.attention(q, q, q, causal=True, block=(64, 64))
    assert bsr.simulate_attention(q, q, q, causal=True, block=(64, 64)).findings == []
    return out

attend()
child(attend)
v = bsr.from_dense(torch.randn(64, 64), (16, 16), keep=0.5)

class Set(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, at):
        signal.alarm(600)
        return v @ torch.ones(64, 3)

batches = list(torch.utils.data.DataLoader(Set(), num_workers=1))
assert torch.equal(batches[1][0], v @ torch.ones(64, 3))
"""


@pytest.mark.parametrize("program", [WITH_NUMPY, WITH_TORCH], ids=["numpy", "torch"])
def test_a_child_multiplies(program) -> None:
    if program is WITH_TORCH:
        pytest.importorskip("torch")
    alone(START + program)


def test_threads_that_cannot_be_started_are_an_error() -> None:
    pytest.importorskip("resource")
    program = """
import resource, numpy as np, bsr_gemm as bsr
w = bsr.from_dense(np.eye(64), (16, 16))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
try:
    w @ np.ones(64)
except bsr.Error as error:
    assert "RAYON_NUM_THREADS" in str(error), error
else:
    raise SystemExit("200 stacks of 8 MB are more than 64 MB")
"""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("this system does not tell how much memory a process has")
    alone(program, RAYON_NUM_THREADS="200")
