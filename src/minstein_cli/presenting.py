"""Printing a fit on stdout: as a table, or as JSON for programs."""

import json
import math
import sys
from typing import Any, NamedTuple

from . import screen
from .complaint import complain
from .data import Data
from .plain import escape_json, plain


class Done(NamedTuple):
    """A fit, its data and its bootstrap, and how to present them."""

    fit: Any
    data: Data
    bootstrap: Any
    alpha: float
    seed: int
    quiet: bool
    comparison: Any = None


def show(done: Done, *, as_json: bool) -> None:
    """Print the fit as a table, as JSON or not at all, with advice if it did not converge."""
    fit = done.fit
    if as_json:
        print(escape_json(json.dumps(describe(done), indent=1, ensure_ascii=False)))
    elif not done.quiet:
        screen.summary(fit.summary(done.alpha))
        if done.bootstrap is not None:
            print()
            screen.summary(bootstrap_summary(done))
    sys.stdout.flush()
    if not fit.converged:
        complain("Not converged", f"{fit.message} {_ADVICE}")


_ADVICE = (
    "Other starts (--start NAME=VALUE), holding a parameter (--fix NAME=VALUE), another discrepancy or --lengthscale, "
    "or --solver direct-search for a density with a kink may help. The estimates above have no standard errors."
)


def bootstrap_summary(done: Done) -> Any:
    """Return the bootstrap as a table like that of the fit."""
    from minstein.result.summary import Summary

    found, alpha = done.bootstrap, done.alpha
    ends = found.conf_int(alpha)
    rows = tuple((plain(name), (found.bse[name], *ends[name])) for name in found.names)
    count = f"{len(found.theta)}, of which {int(found.converged.sum())} converged"
    facts = (("Replications", count), ("Seed", str(done.seed)))
    columns = ("std. error", f"{100 * (1 - alpha):g} % from", "to")
    return Summary("Bootstrap, percentile intervals", facts, columns, rows, ())


def describe(done: Done) -> dict[str, Any]:
    """Return the fit as values for JSON; a number that is not finite becomes null."""
    fit = done.fit
    ends = fit.conf_int(done.alpha)
    facts: dict[str, Any] = {
        "data": done.data.name,
        "columns": list(done.data.columns),
        "n": fit.n,
        "model": repr(fit.model),
        "discrepancy": repr(fit.discrepancy),
        "solver": fit.solver,
        "steps": int(fit.steps),
        "loss": _finite(fit.loss),
        "converged": bool(fit.converged),
        "message": fit.message,
        "alpha": done.alpha,
        "parameters": {
            name: {
                "estimate": _finite(fit.params[name]),
                "std_error": _finite(fit.bse[name]),
                "interval": [_finite(end) for end in ends[name]],
            }
            for name in fit.names
        },
        "notes": list(fit.notes),
    }
    if done.bootstrap is not None:
        percentiles = done.bootstrap.conf_int(done.alpha)
        facts["bootstrap"] = {
            "replications": len(done.bootstrap.theta),
            "converged": int(done.bootstrap.converged.sum()),
            "seed": done.seed,
            "parameters": {
                name: {
                    "std_error": _finite(done.bootstrap.bse[name]),
                    "interval": [_finite(end) for end in percentiles[name]],
                }
                for name in fit.names
            },
        }
    return facts


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
