"""From --discrepancy, --kernel, --lengthscale, --diffusion and --goal to a discrepancy of the library."""

import re
from typing import Any, NamedTuple

from . import own
from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, LENGTHSCALE, MEANT, Entry
from .problem import Problem
from .spec import Choice, Own, choose

_TIMES_MEDIAN = re.compile(r"(?:(?P<times>[0-9.eE+-]+)\s*[*x×])?\s*median")


class Lengthscale(NamedTuple):
    """So many median distances, or a number in the units of the data."""

    value: float = 1.0
    medians: bool = True


class Wish(NamedTuple):
    """What was asked for; None where nothing was."""

    discrepancy: str | None
    kernel: Choice | Own | None
    lengthscale: Lengthscale | None
    diffusion: Choice | Own | None
    unbiased: bool | None
    goal: str | None


def wish(
    discrepancy: str | None,
    kernel: str | None,
    lengthscale: str | None,
    diffusion: str | None,
    statistic: str | None,
    goal: str | None,
) -> Wish:
    """Read the options and refuse what does not go together."""
    if goal and any((discrepancy, kernel, lengthscale, diffusion, statistic)):
        raise Problem(
            f"--goal {goal} settles the discrepancy, so it goes with none of --discrepancy, --kernel, --lengthscale, "
            "--diffusion and --statistic."
        )
    if not any((discrepancy, kernel, lengthscale, diffusion, statistic)):
        return Wish(None, None, None, None, None, goal)
    entry = _entry(discrepancy, diffusion)
    takes = [parameter.name for parameter in entry.parameters]
    for option, text, wanted, what in (
        ("--kernel", kernel, "kernel", "kernel"),
        ("--lengthscale", lengthscale, "kernel", "kernel"),
        ("--diffusion", diffusion, "diffusion", "diffusion"),
        ("--statistic", statistic, "unbiased", "U- and V-statistic"),
    ):
        if text is not None and wanted not in takes:
            raise Problem(f"{entry.name} has no {what}: leave out {option}.")
    if "diffusion" in takes and diffusion is None:
        raise Problem(f"{entry.name} needs a diffusion, such as --diffusion redescending. See: minstein diffusions.")
    if statistic is not None and statistic.lower() not in ("u", "v"):
        raise Problem(f"--statistic must be u or v, got {statistic!r}.")
    asked = Wish(
        entry.name,
        None if kernel is None else choose("kernel", kernel, KERNELS),
        None if lengthscale is None else _lengthscale(lengthscale),
        None if diffusion is None else _complete(choose("diffusion", diffusion, DIFFUSIONS)),
        None if statistic is None else statistic.lower() == "u",
        None,
    )
    if entry.name == "discrete-ksd":
        _check_hamming(asked)
    return asked


def _check_hamming(asked: Wish) -> None:
    if isinstance(asked.kernel, Choice):
        raise Problem("discrete-ksd has Hamming's kernel, or your own as file.py:name: leave out --kernel.")
    if asked.lengthscale is not None and asked.lengthscale.medians:
        raise Problem("--lengthscale of discrete-ksd is a number of variables, such as 20; by default all of them.")
    if asked.lengthscale is not None and asked.kernel is not None:
        raise Problem("Your own kernel has a lengthscale of its own: leave out --lengthscale.")


def check(asked: Wish, model: Choice | Own) -> None:
    """Refuse a discrepancy that is not defined on the data of a family, before anything slow is loaded."""
    if isinstance(model, Own):
        return
    name, (values,) = model.entry.name, model.entry.on
    for_it = [entry.name for entry in DISCREPANCIES if values in entry.on]
    said = f"{name} is a model of {MEANT[values]}, for which there are: {', '.join(for_it)}."
    if asked.goal and values != "real":
        raise Problem(f"--goal {asked.goal} is for models of real numbers, and {said}")
    if asked.discrepancy is not None and asked.discrepancy not in for_it:
        raise Problem(f"{asked.discrepancy} is not defined there: {said} {_LEAVE if values != 'real' else ''}".rstrip())


_LEAVE = "Leave out --discrepancy, --kernel, --lengthscale, --diffusion and --statistic for mpf, the default."


def _complete(choice: Choice | Own) -> Choice | Own:
    """Refuse a diffusion without the arguments that it needs."""
    if isinstance(choice, Choice):
        for parameter in choice.entry.parameters:
            if parameter.default is None and parameter.name not in choice.arguments:
                name = choice.entry.name
                raise Problem(f"The diffusion {name} needs {parameter.name}: for example --diffusion {name}:2.")
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
        raise Problem(f"--lengthscale must be a positive number, median, or a multiple such as 4*median, got {text!r}.")
    return Lengthscale(value, found is not None)


def build(wish: Wish, x: Any, model: Any) -> tuple[Any, tuple[str, ...]]:
    """The discrepancy, None for the default, and what was decided for the user."""
    import minstein as ms

    from .library import resolve

    if wish.goal is not None:
        return _designed(wish.goal, x, model)
    if wish.discrepancy is None:
        discrete = ms.spaces.space_of(model).discrete
        return (ms.MPF(), (_DISCRETE_DEFAULT,)) if discrete else (None, (_DEFAULT,))
    try:
        if wish.discrepancy in ("sm", "mpf", "dfd", "pseudo-likelihood"):
            return resolve(_entry(wish.discrepancy, None))(), ()
        if wish.discrepancy == "cd":
            return ms.CD(ms.markov.Gibbs()), (_SEEDED,)
        if wish.discrepancy == "discrete-ksd":
            return _discrete_ksd(wish), ()
        diffusion = _diffusion(wish.diffusion, x)
        if wish.discrepancy == "dsm":
            return ms.DSM(diffusion), ()
        if wish == Wish("ksd", None, None, None, None, None):
            return None, (_DEFAULT,)
        kernel, units = _kernel(wish.kernel, wish.lengthscale or Lengthscale(), x)
        return ms.DKSD(kernel, units if diffusion is None else diffusion, unbiased=bool(wish.unbiased)), ()
    except (ValueError, TypeError) as reason:
        raise Problem(str(reason)) from reason


_DEFAULT = (
    "The discrepancy is the default: KSD as a V-statistic on data in units of their median absolute deviation, "
    "with an IMQ kernel at the median distance."
)
_DISCRETE_DEFAULT = (
    "The discrepancy is the default for discrete data: minimum probability flow to all states that differ from an "
    "observation in one variable."
)
_SEEDED = "Chains of one sweep of Gibbs sampling from the observations; another --seed gives slightly other estimates."


def _discrete_ksd(wish: Wish) -> Any:
    import minstein as ms

    kernel = own.load(wish.kernel) if isinstance(wish.kernel, Own) else None
    if wish.lengthscale is not None:
        kernel = ms.kernels.Hamming(wish.lengthscale.value)
    return ms.DiscreteKSD(kernel) if wish.unbiased is None else ms.DiscreteKSD(kernel, unbiased=wish.unbiased)


def _designed(goal: str, x: Any, model: Any) -> tuple[Any, tuple[str, ...]]:
    """The design of the library, and what it says of itself."""
    import minstein as ms

    found = ms.design(model, x, goal)
    if isinstance(found.kernel, ms.kernels.Designed):
        return found, (f"Design for efficiency: {found.kernel.checks}.",)
    weights = (
        "the diffusion m = exp(−r²/2a²), where r is the distance from the median in units of 1.4826 times the median "
        "absolute deviation; a = 2.5 in one dimension. An observation many units out has no influence, and neither has "
        "a cluster of them"
    )
    if "redescends" in repr(found):
        weights = "no weights, as the score of the model falls off by itself"
    return found, (f"Design for robustness: DKSD as a V-statistic with {weights}.",)


def _kernel(choice: Choice | Own | None, lengthscale: Lengthscale, x: Any) -> tuple[Any, Any]:
    """The kernel, and the units of the coordinates: a lengthscale in median distances is one of standardised data."""
    import numpy as np

    import minstein as ms
    from minstein.models._family import median_and_mad

    from .library import resolve

    if isinstance(choice, Own):
        return own.load(choice), None
    entry, arguments = choice or Choice(KERNELS[0], {})
    parameter = next(p.name for p in entry.parameters if p.default == LENGTHSCALE)
    if parameter in arguments:
        return resolve(entry)(**arguments), None
    if not lengthscale.medians:
        return resolve(entry)(**arguments, **{parameter: lengthscale.value}), None
    _, s = median_and_mad(x)
    spread = isinstance(x, ms.Sharded)
    length = lengthscale.value * ms.kernels.median_heuristic(x.map(lambda rows: rows / s) if spread else x / s)
    return ms.kernels.Elliptical(np.diag(1 / s), resolve(entry)(**arguments, **{parameter: length})), s


def _diffusion(choice: Choice | Own | None, x: Any) -> Any:
    """A diffusion with its centre and unit at the data's median and deviation, unless told otherwise."""
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
