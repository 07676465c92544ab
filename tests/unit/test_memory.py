"""What a fit plans to take, against what it took, and what it does where there is little."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import minstein as ms
from minstein.data import memory

RNG = np.random.default_rng(23)
MODEL = ms.models.Gaussian(np.zeros(3), 1.0)
KSD = ms.KSD(ms.kernels.IMQ(2.0), unbiased=False, backend="tiles")


def test_a_fit_that_cannot_fit_says_how_much_it_needs(monkeypatch):
    x = RNG.standard_normal((1000, 3))
    monkeypatch.setattr(sys.modules["minstein.discrepancies.ksd"], "available", lambda: 1000)
    with pytest.raises(MemoryError, match=r"shape \(1000, 3\) .* needs about 0.00\d* GB .* 1e-06 GB are free"):
        ms.fit(MODEL, x, KSD)


def test_groups_are_as_large_as_memory_allows(monkeypatch):
    one = memory.PASS * 1024 * 6 * 8
    for room, size in ((100 * one, 10), (21 * one, 10), (12 * one, 6), (one, 1)):
        monkeypatch.setattr(memory, "available", lambda room=room: room)
        assert memory.tangents_at_once(1024, 6, np.float64, 10) == size


@pytest.mark.slow
@pytest.mark.parametrize("moving", [False, True])
def test_parameters_in_groups_give_the_same_fit(monkeypatch, moving):
    x = RNG.standard_normal((100, 3))

    def fitted() -> ms.Fit:
        """Compiled anew each time, because the diffusion is another function."""
        field = ms.diffusions.of_model(lambda model, x: 1 + moving * (x - model.loc) @ (x - model.loc), moving=moving)
        dksd = ms.DKSD(ms.kernels.IMQ(2.0), field, unbiased=False, backend="tiles")
        return ms.fit(MODEL, x, dksd, solver=ms.GaussNewton())

    together, planned = fitted(), []
    monkeypatch.setattr("minstein.discrepancies.base.pairs.tangents_at_once", lambda *sizes: planned.append(sizes) or 3)
    apart = fitted()
    assert planned
    np.testing.assert_allclose(apart.theta, together.theta, rtol=1e-10)
    np.testing.assert_allclose(apart.cov, together.cov, rtol=1e-8)


PEAK = """
import json, sys
import numpy as np
import minstein as ms
from minstein.data.memory import for_pairs
from minstein.data.sample import bucket

status = lambda name: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
n, d = 60_000, 8
x = np.random.default_rng(0).standard_normal((n, d))
model, ksd = ms.models.Gaussian(np.zeros(d), 1.0), ms.KSD(ms.kernels.IMQ(3.0), unbiased=False, backend=ms.Parts(256))
ms.fit(model, x[:5000], ksd)  # compiled as the large one is, so that compiling does not count
before = status("VmRSS")
ms.fit(model, x, ksd)
print(json.dumps([for_pairs(bucket(n), d + 1, np.float64, d + 1), status("VmHWM") - before]))
"""


@pytest.mark.slow
def test_the_plan_is_what_a_fit_takes():
    optimised = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    ran = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, env=optimised)
    planned, taken = json.loads(ran.stdout.splitlines()[-1])
    assert taken < planned < 2.5 * taken
