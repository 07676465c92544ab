"""The exceptions and warnings of minstein, and their texts.

Every text says what was given, what is needed, why, what to type instead, and which page of the
documentation explains it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np


class PrecisionWarning(UserWarning):
    """Double-precision data are being handled in single precision."""


class StatisticWarning(UserWarning):
    """Another statistic was used than was asked for."""


class BoundaryWarning(UserWarning):
    """The Stein identity has a boundary term, so the estimates are biased."""


class MinimumWarning(UserWarning):
    """The minimum that was found may be far from the truth: another place is as good, or another
    estimate disagrees.
    """


class NotConverged(RuntimeError):
    """No minimum was found. `fit` holds what there is."""

    def __init__(self, message: str, fit: Any):
        super().__init__(message)
        self.fit = fit


class SingularInformation(NotConverged):
    """The loss does not change along some direction of the parameters. `fit` holds what there is."""


P = ParamSpec("P")
Problem = TypeVar("Problem")


class Explained(str):
    """A text that already ends with the page that explains it."""

    __slots__ = ()


def explained(page: str) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Append to the texts that a function returns, alone or in an exception, where to read more.

    Args:
        page: the name of a file in docs/; `minstein help` prints it, without the ending .md.
    """

    def decorate(make: Callable[P, Problem]) -> Callable[P, Problem]:
        @wraps(make)
        def make_explained(*args: P.args, **kwargs: P.kwargs) -> Problem:
            problem = make(*args, **kwargs)
            if not isinstance(problem, BaseException):
                return cast(Problem, _with_page(problem, page))
            problem.args = (_with_page(problem.args[0], page),)
            return problem

        return make_explained

    return decorate


def _with_page(text: Any, page: str) -> Explained:
    if isinstance(text, Explained):
        return text
    return Explained(f"{text} See: minstein help {page.removesuffix('.md')}.")


FEW = 8
"""Rows that a text names at the most."""


def rows_text(bad: np.ndarray, numbers: np.ndarray | None = None) -> str:
    """Name the rows where `bad` is true: '3 of 100 rows (rows 4, 17, 56)'; by their places, or
    numbers of their own.
    """
    where = np.flatnonzero(bad) if numbers is None else numbers[bad]
    return named_rows(where[:FEW].tolist(), len(where), len(bad))


def named_rows(first: Any, count: int, n: int) -> str:
    shown = ", ".join(map(str, first)) + (", …" if count > len(first) else "")
    return f"{count} of {n} rows ({'row' if count == 1 else 'rows'} {shown})"


@explained("sharp-bits.md")
def wrong_shape(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"x must have shape (n, d) or (n,), got {shape}. Each row is one observation."
    )


@explained("sharp-bits.md")
def empty_sample(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"x has no observations or no coordinates: its shape is {shape}.")


class ProcessLost(RuntimeError):
    """A process that takes part in a fit has ended, so that the others cannot go on."""


@explained("large-data.md")
def needs_memory(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows on disk. ms.fit, the loss, its derivatives and its sandwich are, for SM, DSM, "
        "for KSD and DKSD with a kernel of ms.kernels, and for the means over observations of discrete models. Take "
        "some rows into memory instead: x.some(100_000)."
    )


@explained("large-data.md")
def disk_steps(name: str) -> TypeError:
    return TypeError(
        f"{name} visits observations in random order, which is slow on disk. Leave solver out, or use "
        "ms.GaussNewton() or ms.LBFGS(); or fit a sample: x.some(1_000_000)."
    )


@explained("discrete.md")
def needs_continuous(name: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} differentiates log p in x, but the model lives on {space!r}, where there is no derivative. "
        "Use ms.MPF(), ms.PseudoLikelihood(), ms.DFD(), ms.DiscreteKSD() or ms.CD(kernel)."
    )


@explained("discrete.md")
def needs_discrete(name: str, what: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} needs a model on {what}, but this one lives on {space!r}. For continuous data use ms.KSD or ms.SM; "
        "for a discrete model of your own say where it lives: ms.models.from_log_density(fn, params, "
        "space=ms.spaces.BINARY), or an attribute `space`."
    )


@explained("discrete.md")
def looks_up() -> TypeError:
    return TypeError(
        "MPF with form='kl' or 'l1' looks up which neighbours were observed, which jit, vmap and minibatches do not "
        "allow. Use form='mean' there."
    )


@explained("choosing.md")
def too_few(n: int) -> ValueError:
    return ValueError(
        f"A U-statistic of degree two needs at least 2 observations, got {n}. "
        "Use unbiased=False for the V-statistic, or give more data."
    )


@explained("large-data.md")
def no_lines(why: str) -> ValueError:
    return ValueError(
        f'backend="lines" sums pairs in linear time on the line, but {why}. It needs data of one variable and sums or '
        "multiples of the kernels Gaussian, IMQ, RationalQuadratic (of small exponents) and Matern. "
        'Use backend="tiles", or None to choose.'
    )


@explained("choosing.md")
def bad_field(name: str, shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"{name} must return a scalar, a vector of shape ({d},) or a matrix of shape ({d}, {d}) "
        f"for a point of shape ({d},), got shape {shape}."
    )


@explained("your-own-model.md")
def no_parameters() -> ValueError:
    return ValueError(
        "The model has no free parameters, so there is nothing to differentiate in. Parameters are floating-point "
        "leaves that are not marked fixed: write 1.0 instead of 1, or take off ms.fixed(...). A plain function of x "
        "has none: ms.models.from_log_density(fn, params) makes a model of fn(params, x)."
    )


@explained("fitting.md")
def no_key(solver: str) -> ValueError:
    return ValueError(f"{solver} draws at random here, so it needs a key: key=jax.random.key(0).")


@explained("fitting.md")
def not_a_fit(path: Any, reason: str) -> ValueError:
    return ValueError(f"{path} is not a fit that minstein saved, or it is damaged: {reason}.")
