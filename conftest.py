"""Names that every example in a docstring may use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace.update(ms=ms, np=np, jnp=jnp, jax=jax)


collect_ignore_glob = ["docs/gallery/*", "docs/*.py"]
