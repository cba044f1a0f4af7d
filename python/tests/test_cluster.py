"""Sweeps on clusters: workers that die, and results that come twice or late."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import bsr_gemm as bsr
from bsr_gemm._lib import _cluster, _command, _tuning
from bsr_gemm._lib._cluster import Event, Job

#: Six kernels; the backend of tests makes their times up.
SPACE = "bm = 64, bk = 32, mma = mma_sync, bn = [16, 32, 48, 64, 80, 96]"
COMMAND = ("sweep", "--space", SPACE, "--n", "128", "--device", "fake", "--strategy", "exhaustive")


@pytest.fixture
def matrix(rng, tmp_path):
    w = bsr.from_dense(rng.standard_normal((128, 64)).astype(np.float16), (64, 32), keep=0.5)
    file = _tuning._written(w, tmp_path)
    return file.name, file.read_bytes()


def jobs(matrix, count: int) -> list[Job]:
    return [Job(COMMAND, matrix, (index + 1, count)) for index in range(count)]


def kernels(database) -> list[str]:
    lines = _command.output("export", str(database), "--json", "-").splitlines()
    return [record["subject"] for record in map(json.loads, lines) if not record["baseline"]]


class Script:
    """Workers in this process: shard 1 dies after two kernels, and what it measured comes again, late; shard 2 tells everything
    twice."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.late: list[tuple[int, Event]] = []

    def submit(self, job: Job) -> int:
        self.jobs.append(job)
        return len(self.jobs) - 1

    def events(self, handles):
        handle = handles[0]
        job = self.jobs[handle]
        if job.shard[0] == 1 and job.tries == 1:
            partial = replace(job, command=(*job.command, "--limit", "2"))
            database = list(_cluster.measure(partial, 0.05))[-1].database
            self.late.append((handle, Event("measured", database)))
            yield handle, Event("measured", database)
            yield handle, Event("lost", words="the node is gone")
            return
        for event in _cluster.measure(job, 0.05):
            for _ in range(2 if job.shard[0] == 2 else 1):
                yield handle, event
        yield from self.late


def test_a_worker_that_dies_comes_twice_or_late_loses_and_repeats_nothing(matrix, tmp_path) -> None:
    workers, database, told = Script(), tmp_path / "all.db", []
    words = _cluster.run(workers, jobs(matrix, 2), database, tell=lambda job, event: told.append((job, event)))
    assert sorted(kernels(database)) == sorted(set(kernels(database))) and len(kernels(database)) == 6
    assert [job.shard for job in workers.jobs] == [(1, 2), (2, 2), (1, 2)] and workers.jobs[2].tries == 2
    done = {job.shard: event.words for job, event in told if event.kind == "done"}
    assert "2 known from before" in done[(1, 2)], "what was measured before the worker died is not measured again"
    assert words == done[(1, 2)] or words == done[(2, 2)]
    # The same sweep once more measures nothing.
    workers = Script()
    assert "known from before" in _cluster.run(workers, jobs(matrix, 2)[1:], database)
    assert len(kernels(database)) == 6


def test_a_shard_that_always_fails_ends_the_sweep(matrix, tmp_path) -> None:
    class Broken:
        submitted = 0

        def submit(self, job):
            self.submitted += 1
            return self.submitted

        def events(self, handles):
            yield handles[0], Event("lost", words="no such GPU")

    workers = Broken()
    with pytest.raises(bsr.Error, match="failed 4 times, the last time with:\n  no such GPU"):
        _cluster.run(workers, jobs(matrix, 1), tmp_path / "all.db")
    assert workers.submitted == _cluster.TRIES


def test_a_command_that_fails_says_why(matrix) -> None:
    wrong = Job(("sweep", "--space", "nonsense", "--device", "fake"), matrix, (1, 1))
    *_, last = _cluster.measure(wrong, 0.05)
    assert last.kind == "lost" and "nonsense" in last.words


def test_a_closed_worker_leaves_no_process(matrix, monkeypatch) -> None:
    monkeypatch.setenv("BSR_FAKE", "* -> pause 2000")
    working = _cluster.measure(jobs(matrix, 1)[0], 0.05)
    assert next(working).kind == "started"
    children = _cluster.subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True
    ).stdout
    pid = next(int(line.split()[0]) for line in children.splitlines() if "bsr_gemm" in line and "sweep" in line)
    working.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_bar_is_over_all_shards() -> None:
    bar = _cluster._Progress(8)
    assert bar.line(0, 0).startswith("[........................] 0 of 8 shards")
    assert bar.line(4, 12) == "[############............] 4 of 8 shards, 12 records"


def test_an_engine_that_there_is_not_is_refused(rng) -> None:
    w = bsr.from_dense(rng.standard_normal((64, 32)).astype(np.float16), (64, 32))
    with pytest.raises(bsr.Error, match="it is one of local, ray"):
        bsr.sweep(w, 64, engine="slurm")


@pytest.fixture(scope="module")
def ray():
    found = pytest.importorskip("ray")
    before = os.environ.get("BSR_FAKE")
    os.environ["BSR_FAKE"] = "* -> pause 300"
    found.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield found
    found.shutdown()
    if before is None:
        del os.environ["BSR_FAKE"]
    else:
        os.environ["BSR_FAKE"] = before


def test_a_worker_of_ray_is_killed(ray, matrix, tmp_path) -> None:
    killed, done = [], {}

    def tell(job: Job, event: Event) -> None:
        if event.kind == "measured" and not killed:
            (tmp_path / "part.db").write_bytes(event.database)
            # The dense libraries are timed before the kernels.
            if kernels(tmp_path / "part.db"):
                killed.append(job)
                os.kill(event.process, signal.SIGKILL)
        if event.kind == "done":
            done[job.shard] = job, event.words

    database = tmp_path / "all.db"
    workers = _cluster.RayWorkers(with_gpu=False, interval=0.1)
    # The backend of tests is one for each command.
    _cluster.run(workers, jobs(matrix, 2), database, tell=tell)
    assert len(killed) == 1
    job, words = done[killed[0].shard]
    assert job.tries >= 2 and job.known is not None
    known = int(words.split(" known from before")[0].split()[-1])
    assert known >= 1, "what was measured before the worker was killed is not measured again"
    assert sorted(kernels(database)) == sorted(set(kernels(database))) and len(kernels(database)) == 6


def test_a_sweep_by_ray_on_the_simulator_is_that_of_this_machine(ray, rng, tmp_path) -> None:
    w = bsr.from_dense(rng.standard_normal((128, 64)).astype(np.float16), (64, 32), keep=0.5)
    space = "bn = [64, 128], stages = 2..=3"
    here = bsr.sweep(w, 64, database=tmp_path / "here.db", space=space, device="sim")
    there = bsr.sweep(w, 64, database=tmp_path / "there.db", space=space, device="sim", engine="ray", shards=2)
    assert "2 shards on 2 workers" in there.summary
    subject = [record["subject"] for record in here.records]
    assert sorted(record["subject"] for record in there.records) == sorted(subject)
    assert there.best["subject"] == here.best["subject"] and not there.is_measured


def test_without_a_gpu_ray_says_so(ray, rng, tmp_path) -> None:
    if ray.cluster_resources().get("GPU"):
        pytest.skip("the cluster has a GPU")
    w = bsr.from_dense(rng.standard_normal((64, 32)).astype(np.float16), (64, 32))
    with pytest.raises(bsr.Error, match="no GPU"):
        bsr.sweep(w, 64, database=tmp_path / "none.db", engine="ray")
