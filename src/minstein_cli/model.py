"""From --model, --set, --fix and --start to a model of the library."""

import inspect
from typing import Any, NamedTuple

from . import own
from .catalogue import Entry, Parameter
from .problem import Problem, unknown
from .spec import FORMS, Choice, Own

_FULL_UP_TO = 10
"""Variables up to which a scale is a full matrix unless told otherwise."""


class Values(NamedTuple):
    """What the user said about parameters, by name."""

    settings: dict[str, Any]
    fixed: dict[str, Any]
    starts: dict[str, Any]

    def check(self) -> None:
        both = (set(self.settings) & set(self.fixed)) | (set(self.starts) & (set(self.settings) | set(self.fixed)))
        for name in sorted(both):
            raise Problem(f"{name} is given more than once among --set, --fix and --start.")

    def held(self) -> tuple[str, ...]:
        """What is held because the user said so, in words."""
        told = {**self.settings, **self.fixed}
        return tuple(f"{name} is held at {value}." for name, value in told.items() if not isinstance(value, str))


def check(choice: Choice | Own, values: Values) -> None:
    """Refuse names that a family of the catalogue does not have, before anything slow is loaded."""
    values.check()
    if isinstance(choice, Own):
        return
    entry = choice.entry
    known = [parameter.name for parameter in entry.parameters]
    for name in (*values.settings, *values.fixed, *values.starts):
        if name not in known:
            raise unknown(f"parameter of {entry.name} named", name, known)
    for name, value in values.settings.items():
        parameter = _parameter(entry, name)
        if not parameter.held and not (parameter.shape == "scale" and value in FORMS):
            raise Problem(f"{name} is fitted. --fix {name}=… holds it at a value; --start {name}=… begins there.")
    for name, value in (*values.fixed.items(), *values.starts.items()):
        if isinstance(value, str):
            raise Problem(f"{name} must be a number here, got {value!r}.")


def _parameter(entry: Entry, name: str) -> Parameter:
    parameter = entry.parameter(name)
    if parameter is None:
        raise unknown(f"parameter of {entry.name} named", name, [p.name for p in entry.parameters])
    return parameter


def build(choice: Choice | Own, values: Values, x: Any) -> tuple[Any, tuple[str, ...]]:
    """The model at its start on the data, and what was decided for the user."""
    if isinstance(choice, Choice):
        return _family(choice.entry, values, x)
    model = _own(choice, values)
    _check_values(choice, model, x)
    return model, (f"The model is {choice}.", *values.held())


# Families of the catalogue


def _family(entry: Entry, values: Values, x: Any) -> tuple[Any, tuple[str, ...]]:
    """Built at its start on the data; then whatever the user said about a parameter takes its place."""
    import minstein as ms

    from .library import resolve

    family = resolve(entry)
    form, notes = _form(entry, values, x.shape[1])
    fields = {p.name: _initial(p, x.shape[1], form) for p in entry.parameters}
    notes += _pairs(entry, x.shape[1]) + values.held()
    given = {**values.settings, **values.fixed, **values.starts}
    for p in entry.parameters:
        if p.held and p.name in given:
            fields[p.name] = given[p.name]
        elif p.held:
            advice = f"--set {p.name}=… changes it, --start {p.name}=… fits it."
            notes += (f"{p.name} is held at {fields[p.name]:g}, the default: {advice}",)
    try:
        placed = family(**fields)
        placed = placed.start(x) if hasattr(placed, "start") else placed
        fields = {name: getattr(placed, name) for name in fields}
        for name, value in values.fixed.items():
            fields[name] = ms.fixed(_like(_parameter(entry, name), value, x.shape[1]))
        for name, value in values.starts.items():
            shaped = _like(_parameter(entry, name), value, x.shape[1])
            fields[name] = ms.positive(shaped) if _parameter(entry, name).held else shaped
        return family(**fields), notes
    except ValueError as reason:
        raise Problem(str(reason)) from reason


def _form(entry: Entry, values: Values, d: int) -> tuple[str, tuple[str, ...]]:
    """Whether a scale is a number, a vector or a matrix: as told, or as large as the data allow."""
    if d == 1 or not any(p.shape == "scale" for p in entry.parameters):
        return "scalar", ()
    told = values.settings.get("scale")
    if told is not None:
        return told, ()
    if "scale" in values.fixed or "scale" in values.starts:
        return "scalar", ()
    if d <= _FULL_UP_TO:
        return "full", ("scale is a lower-triangular matrix; --set scale=diagonal or scale=scalar makes it smaller.",)
    why = f"because there are more than {_FULL_UP_TO} variables; --set scale=full or scale=scalar changes that"
    return "diagonal", (f"scale is one number for each variable, {why}.",)


def _initial(parameter: Parameter, d: int, form: str) -> Any:
    import numpy as np

    if parameter.shape == "scale":
        return {"scalar": 1.0, "diagonal": np.ones(d), "full": np.eye(d)}[form]
    if parameter.shape == "number":
        return (d + 3) / 2 if parameter.default == "(d+3)/2" else parameter.default
    return _like(parameter, 1.0 if parameter.shape == "rate" else 0.0, d)


def _like(parameter: Parameter, value: Any, d: int) -> Any:
    """As many entries as the parameter has from one number; anything else as it is."""
    import numpy as np

    entries = _entries(parameter, d)
    return value if entries is None or np.ndim(value) else np.full(entries, value)


def _entries(parameter: Parameter, d: int) -> int | None:
    """How many entries a vector has; None where the parameter is none, or need not be."""
    if parameter.shape in ("location", "rate"):
        return d if d > 1 else None
    return {"site": d, "pair": d * (d - 1) // 2}.get(parameter.shape)


def _pairs(entry: Entry, d: int) -> tuple[str, ...]:
    """Which pair of variables a coupling belongs to."""
    if d < 3 or not any(p.shape == "pair" for p in entry.parameters):
        return ()
    return (f"coupling has an entry for each pair of columns, in the order [0]–[1], [0]–[2], …, [{d - 2}]–[{d - 1}].",)


# A user's own model


def _own(where: Own, values: Values) -> Any:
    import minstein as ms

    thing = own.load(where)
    try:
        model = _made(where, thing, values)
        for name, value in values.fixed.items():
            model = _held(model, name, value)
        for name, value in values.starts.items():
            model = _started(model, name, value)
    except (ValueError, TypeError) as reason:
        raise Problem(f"{where}: {reason}") from reason
    if not ms.params.names(model):
        raise Problem(f"{where} has no free parameters: write 1.0 instead of 1, or hold fewer of them.")
    return model


def _check_values(where: Own, model: Any, x: Any) -> None:
    """Refuse a model that is not finite on the data. A NaN of log p may have a finite score, and would go unnoticed."""
    import jax
    import numpy as np

    import minstein as ms

    with jax.enable_x64(True):
        values = np.asarray(jax.vmap(model)(x.local if isinstance(x, ms.Sharded) else x))
    bad = np.flatnonzero(~np.isfinite(values)) if values.ndim == 1 else np.zeros(0)
    if bad.size:
        raise Problem(
            f"{where} returns {values[bad[0]]} at {bad.size} of {len(values)} observations, "
            f"the first in row {bad[0] + 1}. Begin where it is finite (--start NAME=VALUE), or leave out observations "
            "that it rules out."
        )


def _made(where: Own, thing: Any, values: Values) -> Any:
    """A model as it is; what a class or function makes from --set; or fn(params, x) at --start and --fix."""
    import minstein as ms

    if inspect.isclass(thing) or inspect.isroutine(thing):
        if _is_log_density(thing):
            params = {**values.settings, **values.fixed, **values.starts}
            if not params:
                raise Problem(f"{where} is a function of (params, x). Give its parameters: --start NAME=VALUE.")
            return ms.models.from_log_density(thing, params)
        thing = thing(**values.settings)
    elif values.settings:
        raise Problem(f"{where} is a finished model, so --set does not apply. Use --fix or --start.")
    if not callable(thing):
        raise Problem(f"{where} is no model: a model is called on one point x and returns log p(x) up to a constant.")
    return thing


def _is_log_density(thing: Any) -> bool:
    """Whether it is a function fn(params, x)."""
    if inspect.isclass(thing):
        return False
    required = [p.name for p in inspect.signature(thing).parameters.values() if p.default is p.empty]
    return len(required) == 2 and required[1] == "x"


def _held(model: Any, name: str, value: Any) -> Any:
    """The model with a whole leaf held at a value."""
    import numpy as np

    import minstein as ms

    leaves = ms.params.leaves(model)
    if name not in leaves:
        raise unknown("parameter to hold named", name, leaves)
    old = leaves[name].value if ms.params.is_marked(leaves[name]) else leaves[name]
    return ms.params.with_leaf(model, name, ms.fixed(_broadcast(name, value, np.shape(old))))


def _started(model: Any, name: str, value: Any) -> Any:
    """The model with a leaf, or one entry of it, at a value."""
    import numpy as np

    import minstein as ms

    names = ms.params.names(model)
    entries = [i for i, known in enumerate(names) if known == name or known.startswith(name + "[")]
    if not entries:
        raise unknown("free parameter named", name, names)
    theta = np.array(ms.params.theta(model), np.float64)
    theta[entries] = _broadcast(name, np.ravel(value) if np.ndim(value) else value, (len(entries),))
    started = ms.params.with_theta(model, theta)
    if not np.isfinite(ms.params.to_real(started)).all():
        raise Problem(f"--start {name}: the value is outside of what the parameter allows.")
    return started


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    if np.ndim(value) and np.shape(value) != shape:
        raise Problem(f"{name} has shape {shape}, and the value has shape {np.shape(value)}.")
    return np.broadcast_to(np.asarray(value, np.float64), shape).copy()
