"""The experiments, as data: listing them needs neither JAX nor matplotlib."""

import importlib
from collections.abc import Callable
from typing import NamedTuple


class Experiment(NamedTuple):
    """One experiment; the module of its name has `run(lab)`. `quick` and `full` are its shares of the time."""

    name: str
    title: str
    quick: float
    full: float

    @property
    def run(self) -> Callable:
        return importlib.import_module(f"{__package__}.{self.name.replace('-', '_')}").run


EXPERIMENTS = (
    Experiment("bessel", "Rough densities: the symmetric Bessel distribution", 80, 900),
    Experiment("student-t", "Heavy tails: location and scale of Student's t", 110, 800),
    Experiment("stochastic", "Riemannian stochastic gradient descent", 40, 400),
    Experiment("gamma", "Light tails: the generalised gamma distribution under corruption", 50, 300),
    Experiment("liu", "A simple unnormalised model", 40, 250),
    Experiment("robustness", "Efficiency against robustness", 90, 900),
    Experiment("theory", "Theory: rates, intervals, influence, limits, cost", 110, 700),
    Experiment("experts", "The outlook: a product of Student-t experts on patches of images", 60, 350),
    Experiment("errata", "Errata, each with a number", 40, 60),
)


def find(name: str) -> Experiment:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name)


NAMES = tuple(experiment.name for experiment in EXPERIMENTS)
