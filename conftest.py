"""What every test finds: the names of the examples, draws of its own, and how long it is said to be."""

import gc
import itertools
import re
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms


def pytest_collection_finish():
    """Modules and tests stay until the end, so the garbage collector need not look through them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(ms=ms, np=np, jnp=jnp, jax=jax)


KIND = re.compile("^tests/(unit|exact|statistical|docs)/")


@pytest.fixture(autouse=True)
def _draws(request):
    """A test draws the same numbers from its module's generator, whichever tests ran before it and wherever it lies."""
    if rng := getattr(getattr(request, "module", None), "RNG", None):
        name = KIND.sub("tests/", request.node.nodeid)
        rng.bit_generator.state = type(rng.bit_generator)(zlib.crc32(name.encode())).state


_TESTS, _EVERY, _MOST_MAPS = itertools.count(), 4, 25_000
"""Linux lets a process map 65 530 regions of memory, and ends it with a fault at more; compiled programs are such."""


@pytest.fixture(autouse=True)
def _room():
    """Compiled programs are dropped, now and then, before there are too many of them for one process."""
    yield
    maps = Path("/proc/self/maps")
    if next(_TESTS) % _EVERY == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()


ROOT = Path(__file__).parent
LONGEST = "test_paper", "test_intervals_of_many_parameters_cover"
OPTIMISED = ROOT / "tests" / "exact", ROOT / "tests" / "statistical"


def pytest_collection_modifyitems(items):
    """Tests against exact values and simulations run with XLA's optimiser on; the pages of the documentation are slow.

    The longest come first, so that no worker is left with one at the end.
    """
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST))
    for item in items:
        if item.path.parent in OPTIMISED:
            item.add_marker(pytest.mark.optimised)
        if item.path.suffix == ".md" and item.path.is_relative_to(ROOT / "docs"):
            item.add_marker(pytest.mark.slow)


collect_ignore_glob = ["docs/gallery/*", "docs/*.py"]
