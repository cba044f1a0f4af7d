"""Timing in turn, on a GPU that is a queue and a clock."""

from __future__ import annotations

import unittest
from unittest import mock

from ..timing import Cuda, L2Flush, Limits, Samples, Turns, glance

try:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    TORCH = False
else:
    TORCH = True


class FakeEvent:
    """Knows when the GPU passes it."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        """After all that is enqueued, and not before now."""
        self.gpu.host_us += 1
        self.at = self.gpu.done_us = max(self.gpu.done_us, self.gpu.host_us)

    def query(self) -> bool:
        """Whether the GPU has passed it by the host's clock."""
        return self.at <= self.gpu.host_us

    def elapsed_time(self, end: FakeEvent) -> float:
        """In milliseconds."""
        return (end.at - self.at) / 1e3


class FakeGpu:
    """Work takes its time on the GPU and another on the host; both clocks are in microseconds."""

    def __init__(self) -> None:
        self.host_us = self.done_us = 0.0
        self.order: list[str] = []

    def enqueue(self, name: str, host_us: float, gpu_us: float) -> None:
        """Work."""
        self.order.append(name)
        self.host_us += host_us
        self.done_us = max(self.done_us, self.host_us) + gpu_us

    def event(self) -> FakeEvent:
        """A new event."""
        return FakeEvent(self)

    def flush(self) -> None:
        """60 us."""
        self.enqueue("flush", 5, 60)

    def busy(self, us: float) -> None:
        """Exactly so long."""
        self.enqueue("busy", 5, us)

    def wait(self) -> None:
        """The host catches up."""
        self.host_us = max(self.host_us, self.done_us)

    def clock(self) -> float:
        """In seconds."""
        return self.host_us / 1e6


class TimingTest(unittest.TestCase):
    """What is timed, and when it counts."""

    def test_launches_take_turns_each_from_a_cold_cache(self) -> None:
        """A flush before every launch, in the order given."""
        gpu = FakeGpu()
        launches = {name: lambda name=name: gpu.enqueue(name, 5, 200) for name in "abc"}
        samples = Turns(gpu, launches, gpu.clock).run(Limits(warmup_s=0, least=20, most=40, time_s=1))
        work = [name for name in gpu.order if name != "busy"]
        self.assertEqual(work[:6], ["flush", "a", "flush", "b", "flush", "c"])
        self.assertEqual(len({len(one.us) for one in samples.values()}), 1)
        self.assertGreaterEqual(len(samples["a"].us), 20)

    def test_the_time_of_the_host_is_not_timed(self) -> None:
        """A launch that takes the host longer than the GPU is waited for with a busy GPU."""
        gpu = FakeGpu()
        launches = {"slow host": lambda: gpu.enqueue("slow", 900, 50), "other": lambda: gpu.enqueue("other", 5, 100)}
        samples = Turns(gpu, launches, gpu.clock).run(Limits(warmup_s=0.2, least=40, most=200, time_s=1))
        self.assertFalse(samples["slow host"].host_bound)
        self.assertTrue(all(abs(us - 50) < 1e-6 for us in samples["slow host"].counted()))
        self.assertTrue(all(abs(us - 100) < 1e-6 for us in samples["other"].counted()))

    def test_a_launch_that_waits_for_the_gpu_is_told(self) -> None:
        """Its samples all hold time of the host, and say so."""
        gpu = FakeGpu()

        def waiting() -> None:
            gpu.wait()
            gpu.enqueue("waits", 30, 50)

        samples = Turns(gpu, {"waits": waiting}, gpu.clock).run(Limits(warmup_s=0, least=20, most=40, time_s=1))
        self.assertTrue(samples["waits"].host_bound)
        self.assertGreater(len(samples["waits"].counted()), 19)

    def test_limits(self) -> None:
        """No more rounds than allowed, no fewer than asked for, though the clock has run out."""
        gpu = FakeGpu()
        turns = Turns(gpu, {"a": lambda: gpu.enqueue("a", 5, gpu.done_us % 97 + 50)}, gpu.clock)
        self.assertEqual(len(turns.run(Limits(warmup_s=0, least=70, most=90, time_s=0, target=0))["a"].us), 90)
        few = Turns(gpu, {"a": lambda: gpu.enqueue("a", 5, 50)}, gpu.clock)
        self.assertGreaterEqual(len(few.run(Limits(warmup_s=0, least=20, most=400, time_s=0))["a"].us), 20)

    def test_late_samples_do_not_count(self) -> None:
        """Unless there are no others."""
        some = Samples([1.0] * 10 + [9.0] * 10, [False] * 10 + [True] * 10)
        self.assertEqual(some.counted(), [1.0] * 10)
        self.assertEqual(len(some.by_round()), 20)
        none = Samples([9.0] * 10, [True] * 10)
        self.assertTrue(none.host_bound and none.counted() == [9.0] * 10)

    def test_a_glance(self) -> None:
        """Is the median of a few."""
        gpu = FakeGpu()
        self.assertEqual(glance(gpu, lambda: gpu.enqueue("a", 5, 120)), 120)


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class FlushTest(unittest.TestCase):
    """What empties the L2 cache, in the CPU's memory."""

    def test_one_buffer_is_written_before_another_is_read(self) -> None:
        """Each by one operation, and there is no other."""
        operations: list[tuple[str, int]] = []

        class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
            """Notes each operation and where its first tensor lies."""

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                operations.append((str(func), args[0].data_ptr()))
                return func(*args, **(kwargs or {}))

        flush = L2Flush(1 << 20, "cpu")
        with Recorder():  # type: ignore[no-untyped-call]
            flush()
        there = [("aten.zero_.default", flush.written.data_ptr()), ("aten.sum.IntList_out", flush.read.data_ptr())]
        self.assertEqual(operations, there)
        self.assertNotEqual(flush.written.data_ptr(), flush.read.data_ptr())

    def test_all_of_both_is_touched(self) -> None:
        """They are as long as was asked for: every element is overwritten, and every one takes part in a sum."""
        flush = L2Flush((1 << 20) + 1, "cpu")
        for buffer in (flush.written, flush.read):
            self.assertGreater(buffer.nbytes, 1 << 20)
            buffer.fill_(1.0)
        flush()
        self.assertEqual(int(flush.written.count_nonzero()), 0)
        self.assertEqual(float(flush.sums.sum()), flush.read.numel())

    def test_as_much_as_the_cache_needs(self) -> None:
        """Twice the cache, and never less than `bsr bench` takes."""
        for cache, size in ((50 << 20, 256 << 20), (200 << 20, 400 << 20)):
            properties = mock.Mock(L2_cache_size=cache)
            with (
                mock.patch.object(torch.cuda, "get_device_properties", lambda properties=properties: properties),
                mock.patch("benches.peers.timing.L2Flush") as flush,
            ):
                Cuda().flush()
            flush.assert_called_once_with(size, "cuda")
            flush.return_value.assert_called_once_with()


if __name__ == "__main__":
    unittest.main()
