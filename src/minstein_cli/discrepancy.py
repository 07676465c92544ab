"""From --discrepancy, --kernel, --lengthscale, --diffusion and --goal to a discrepancy of the
library.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from . import own
from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, LENGTHSCALE, MEANT, Entry
from .problem import Problem
from .spec import Choice, Own, choose

T = TypeVar("T")

_TIMES_MEDIAN = re.compile(r"(?:(?P<times>[0-9.eE+-]+)\s*[*x×])?\s*median")


class Lengthscale(NamedTuple):
    """A multiple of the median distance, or a number in the units of the data."""

    value: float = 1.0
    medians: bool = True


class Wish(NamedTuple):
    """The discrepancy that the user asked for; None for each option that was not given."""

    discrepancy: str | None = None
    kernel: Choice | Own | None = None
    lengthscale: Lengthscale | None = None
    diffusion: Choice | Own | None = None
    unbiased: bool | None = None
    goal: str | None = None


def wish(
    discrepancy: str | None,
    kernel: str | None,
    lengthscale: str | None,
    diffusion: str | None,
    statistic: str | None,
    goal: str | None,
) -> Wish:
    """Return what the options ask for, or raise if they cannot be combined."""
    if not any((discrepancy, kernel, lengthscale, diffusion, statistic)):
        return Wish(goal=goal)
    if goal:
        raise Problem(
            f"--goal {goal} determines the discrepancy, so it cannot be combined with "
            "--discrepancy, --kernel, --lengthscale, --diffusion or --statistic."
        )
    entry = _entry(discrepancy, diffusion)
    _check_parts(entry, kernel, lengthscale, diffusion, statistic)
    asked = Wish(
        discrepancy=entry.name,
        kernel=_read(kernel, lambda text: choose("kernel", text, KERNELS)),
        lengthscale=_read(lengthscale, _lengthscale),
        diffusion=_read(
            diffusion, lambda text: _check_complete(choose("diffusion", text, DIFFUSIONS))
        ),
        unbiased=_read(statistic, _is_unbiased),
    )
    if entry.name == "discrete-ksd":
        _check_hamming(asked)
    return asked


def _read(text: str | None, parse: Callable[[str], T]) -> T | None:
    """Parse an option, or return None if it was not given."""
    return None if text is None else parse(text)


def _check_parts(
    entry: Entry,
    kernel: str | None,
    lengthscale: str | None,
    diffusion: str | None,
    statistic: str | None,
) -> None:
    """Raise if an option is for a part that the discrepancy lacks, or if a diffusion is missing."""
    takes = [parameter.name for parameter in entry.parameters]
    for option, text, part, what in (
        ("--kernel", kernel, "kernel", "kernel"),
        ("--lengthscale", lengthscale, "kernel", "kernel"),
        ("--diffusion", diffusion, "diffusion", "diffusion"),
        ("--statistic", statistic, "unbiased", "U- and V-statistic"),
    ):
        if text is not None and part not in takes:
            raise Problem(f"{entry.name} has no {what}: leave out {option}.")
    if "diffusion" in takes and diffusion is None:
        raise Problem(
            f"{entry.name} needs a diffusion, such as --diffusion redescending. See: minstein diffusions."
        )


def _is_unbiased(statistic: str) -> bool:
    """Whether --statistic asks for the U-statistic."""
    if statistic.lower() not in ("u", "v"):
        raise Problem(f"--statistic must be u or v, got {statistic!r}.")
    return statistic.lower() == "u"


def _check_hamming(asked: Wish) -> None:
    if isinstance(asked.kernel, Choice):
        raise Problem(
            "discrete-ksd has Hamming's kernel, or your own as file.py:name: leave out --kernel."
        )
    if asked.lengthscale is not None and asked.lengthscale.medians:
        raise Problem(
            "--lengthscale of discrete-ksd is a number of variables, such as 20; by default all of them."
        )
    if asked.lengthscale is not None and asked.kernel is not None:
        raise Problem("Your own kernel has a lengthscale of its own: leave out --lengthscale.")


def check(asked: Wish, model: Choice | Own) -> None:
    """Raise if the discrepancy is not defined for the data of a family, before JAX is loaded."""
    if isinstance(model, Own):
        return
    name, (values,) = model.entry.name, model.entry.on
    for_it = [entry.name for entry in DISCREPANCIES if values in entry.on]
    said = f"{name} is a model of {MEANT[values]}, for which there are: {', '.join(for_it)}."
    if asked.goal and values != "real":
        raise Problem(f"--goal {asked.goal} is for models of real numbers, and {said}")
    if asked.discrepancy is not None and asked.discrepancy not in for_it:
        raise Problem(
            f"{asked.discrepancy} is not defined there: {said} {_LEAVE if values != 'real' else ''}".rstrip()
        )


_LEAVE = "Leave out --discrepancy, --kernel, --lengthscale, --diffusion and --statistic for mpf, the default."


def _check_complete(choice: Choice | Own) -> Choice | Own:
    """Return the diffusion, or raise if it lacks an argument that it needs."""
    if isinstance(choice, Choice):
        for parameter in choice.entry.parameters:
            if parameter.required and parameter.name not in choice.arguments:
                name = choice.entry.name
                raise Problem(
                    f"The diffusion {name} needs {parameter.name}: for example --diffusion {name}:2."
                )
    return choice


def _entry(discrepancy: str | None, diffusion: str | None) -> Entry:
    if discrepancy is None:  # the other options are those of kernels
        discrepancy = "dksd" if diffusion is not None else "ksd"
    choice = choose("discrepancy", discrepancy, DISCREPANCIES)
    if isinstance(choice, Own) or choice.arguments:
        raise Problem(f"--discrepancy must be a name alone, got {discrepancy!r}.")
    return choice.entry


def _lengthscale(text: str) -> Lengthscale:
    found = _TIMES_MEDIAN.fullmatch(text)
    try:
        value = float(text if found is None else found["times"] or 1)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise Problem(
            f"--lengthscale must be a positive number, median, or a multiple such as 4*median, got {text!r}."
        )
    return Lengthscale(value, found is not None)


Built = tuple[Any, tuple[str, ...]]
"""A discrepancy, or None for the library's default, and notes on what was chosen automatically."""


def build(wish: Wish, x: Any, model: Any, support: tuple[float, float] | None = None) -> Built:
    """Return the discrepancy that was asked for, with notes."""
    if wish.goal == "robust":
        return _robust(x, model, support)
    if wish.goal == "efficient":
        return "efficient", ()
    if wish.discrepancy is None:
        return _default(model)
    try:
        return _BUILDERS.get(wish.discrepancy, _without_parts)(wish, x)
    except (ValueError, TypeError) as reason:
        raise Problem(str(reason)) from reason


def _default(model: Any) -> Built:
    import minstein as ms

    discrete = ms.spaces.space_of(model).discrete
    return (ms.MPF(), (_DISCRETE_DEFAULT,)) if discrete else (None, ())


def _without_parts(wish: Wish, x: Any) -> Built:
    """Return a discrepancy that needs nothing but its name, such as sm or mpf."""
    from .library import resolve

    return resolve(_entry(wish.discrepancy, None))(), ()


def _contrastive(wish: Wish, x: Any) -> Built:
    import minstein as ms

    return ms.CD(ms.markov.Gibbs()), (_SEEDED,)


def _diffusion_score_matching(wish: Wish, x: Any) -> Built:
    import minstein as ms

    return ms.DSM(_diffusion(wish.diffusion, x)), ()


def _kernel_stein(wish: Wish, x: Any) -> Built:
    import minstein as ms

    if wish == Wish("ksd"):
        return "ksd", (_KSD,)
    diffusion = _diffusion(wish.diffusion, x)
    kernel = _kernel(wish.kernel, wish.lengthscale or Lengthscale(), x, alone=diffusion is None)
    return ms.DKSD(kernel, diffusion, unbiased=bool(wish.unbiased)), ()


_KSD = (
    "KSD as a V-statistic on robustly standardised data, with an IMQ kernel at the median distance."
)
_DISCRETE_DEFAULT = (
    "The discrepancy is the default for discrete data: minimum probability flow to all states that differ from an "
    "observation in one variable."
)
_SEEDED = "Chains of one sweep of Gibbs sampling from the observations; another --seed gives slightly other estimates."


def _discrete_ksd(wish: Wish, x: Any) -> Built:
    import minstein as ms

    kernel = own.load(wish.kernel) if isinstance(wish.kernel, Own) else None
    if wish.lengthscale is not None:
        kernel = ms.kernels.Hamming(wish.lengthscale.value)
    if wish.unbiased is None:
        return ms.DiscreteKSD(kernel), ()
    return ms.DiscreteKSD(kernel, unbiased=wish.unbiased), ()


_BUILDERS: dict[str, Callable[[Wish, Any], Built]] = {
    "efficient": lambda wish, x: ("efficient", ()),
    "ksd": _kernel_stein,
    "dksd": _kernel_stein,
    "dsm": _diffusion_score_matching,
    "discrete-ksd": _discrete_ksd,
    "cd": _contrastive,
}
"""The functions that build discrepancies with parts or notes."""


def _robust(x: Any, model: Any, support: tuple[float, float] | None) -> Built:
    """Return the discrepancy that the library designs for robustness."""
    import minstein as ms

    found: Any = ms.design(model, x, "robust", support=support)
    weights = (
        "without weights, because the score of the model itself falls off"
        if found.diffusion.field.is_off
        else "whose diffusion vanishes far from the bulk of the data: an observation there has no influence, and "
        "neither has a cluster of them"
    )
    return found, (f"Design for robustness: DKSD as a V-statistic {weights}.",)


def _kernel(choice: Choice | Own | None, lengthscale: Lengthscale, x: Any, *, alone: bool) -> Any:
    """Return the kernel. A lengthscale in median distances refers to standardised data.

    If the kernel is `alone`, it standardises the data. With a diffusion it keeps their units,
    because the diffusion is in those units too.
    """
    from minstein.discrepancies.default import standardised_kernel, standardised_ksd

    from .library import resolve

    if isinstance(choice, Own):
        return own.load(choice)
    entry, arguments = choice or Choice(KERNELS[0], {})
    parameter = next(p.name for p in entry.parameters if p.option == LENGTHSCALE)
    if parameter in arguments:
        return resolve(entry)(**arguments)
    profile = lambda length: resolve(entry)(**arguments, **{parameter: length})
    if not lengthscale.medians:
        return profile(lengthscale.value)
    if alone:
        return standardised_ksd(x, profile=profile, widening=lengthscale.value).kernel
    return standardised_kernel(x, profile, lengthscale.value)


def _diffusion(choice: Choice | Own | None, x: Any) -> Any:
    """Return the diffusion, by default centred at the median of the data and scaled by their median
    absolute deviation.
    """
    from minstein.models._family import median_and_mad

    from .library import resolve

    if choice is None:
        return None
    if isinstance(choice, Own):
        return own.load(choice)
    if not choice.entry.parameters:
        return resolve(choice.entry)
    centre, s = median_and_mad(x)
    robust = {"centre": ("median", centre), "scale": ("mad", s)}
    arguments = {p.name: choice.arguments.get(p.name, p.default) for p in choice.entry.parameters}
    for name, value in arguments.items():
        if name in robust and value == robust[name][0]:
            arguments[name] = robust[name][1]
    return resolve(choice.entry)(**arguments)
