"""The examples run at a small size, and their results are right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not beside the tests")


@pytest.fixture(autouse=True)
def _path(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def quiet(line: str) -> None:
    assert line


def test_a_graph_network_learns_from_neighbours() -> None:
    import graph_network

    found = graph_network.train(size=64, block=16, steps=30, report=quiet)
    assert graph_network.right(found), found
    assert found["accuracy"] > 0.9


def test_a_mixture_of_experts_learns() -> None:
    import mixture_of_experts

    found = mixture_of_experts.train(tokens=128, steps=60, report=quiet)
    assert mixture_of_experts.right(found), found


def test_the_product_of_pruned_weights() -> None:
    import pruned_product

    found = pruned_product.product(size=192, block=16, keep=0.1, report=quiet)
    assert pruned_product.right(found), found
    for wrong in ({"rounding": 0.1}, {"outside": 1.0}, {"density": 1.0}):
        assert not pruned_product.right({**found, **wrong})
