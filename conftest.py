"""What every test finds: the names of the examples, draws of its own, and how long it is said to be."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(ms=ms, np=np, jnp=jnp, jax=jax)


@pytest.fixture(autouse=True)
def _draws(request):
    """A test draws the same numbers from its module's generator, whichever tests ran before it."""
    if rng := getattr(getattr(request, "module", None), "RNG", None):
        rng.bit_generator.state = type(rng.bit_generator)(zlib.crc32(request.node.nodeid.encode())).state


SLOW_PAGES = {
    "choosing",
    "coming-from",
    "contributing",
    "designed",
    "discrete",
    "fitting",
    "idea",
    "inference",
    "large-data",
    "robustness",
    "sharp-bits",
    "your-own-model",
}
SIMULATIONS = (
    "test_asymptotics",
    "test_coverage",
    "test_design_simulation",
    "test_discrete.py::TestSimulation",
    "test_examples",
    "test_incomplete.py::test_standard_errors",
    "test_lines.py::test_a_large_fit",
    "test_markov",
    "test_paper",
    "test_simulation",
    "test_stochastic",
)


def pytest_collection_modifyitems(items):
    """The pages that fit many models run with the slow tests; those of the latter that compute more than they compile
    are simulations. The longest come first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: "test_paper" not in item.nodeid)
    for item in items:
        if item.path.suffix == ".md" and item.path.stem in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and any(name in item.nodeid for name in SIMULATIONS):
            item.add_marker(pytest.mark.simulation)


collect_ignore_glob = ["docs/gallery/*", "docs/*.py"]
