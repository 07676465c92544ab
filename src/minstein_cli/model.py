"""From --model, --set, --fix and --start to a model of the library."""

import inspect
from typing import Any, NamedTuple

from . import own
from .catalogue import Entry, Formula, Parameter
from .problem import Problem, unknown
from .spec import FORMS, Choice, Own

_FULL_UP_TO = 10
"""The most variables for which a scale is a full matrix by default."""


class Values(NamedTuple):
    """The values that the user gave for parameters, by name."""

    settings: dict[str, Any]
    fixed: dict[str, Any]
    starts: dict[str, Any]
    positive: tuple[str, ...] = ()

    def check(self) -> None:
        both = (set(self.settings) & set(self.fixed)) | (
            set(self.starts) & (set(self.settings) | set(self.fixed))
        )
        for name in sorted(both):
            raise Problem(f"{name} is given more than once among --set, --fix and --start.")
        for name in sorted(set(self.positive) & set(self.fixed)):
            raise Problem(f"{name} is held by --fix, so --positive does not apply.")

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each parameter that the user holds."""
        told = {**self.settings, **self.fixed}
        return tuple(
            f"{name} is held at {value}."
            for name, value in told.items()
            if not isinstance(value, str)
        )


def check(choice: Choice | Own, values: Values) -> None:
    """Raise if a family does not have the parameters that were named, before JAX is loaded."""
    values.check()
    if isinstance(choice, Own):
        return
    entry = choice.entry
    if values.positive:
        raise Problem(
            f"--positive is for a model of your own. {entry.name} knows which of its parameters are positive."
        )
    for name in (*values.settings, *values.fixed, *values.starts):
        _parameter(entry, name)
    for name, value in values.settings.items():
        _check_setting(_parameter(entry, name), value)
    for name, value in (*values.fixed.items(), *values.starts.items()):
        if isinstance(value, str):
            raise Problem(f"{name} must be a number here, got {value!r}.")


def _check_setting(parameter: Parameter, value: Any) -> None:
    """Raise if --set is given for a parameter that is fitted, unless it sets the form of a scale."""
    if not parameter.held and not (parameter.shape == "scale" and value in FORMS):
        name = parameter.name
        raise Problem(
            f"{name} is fitted. --fix {name}=… holds it at a value; --start {name}=… begins there."
        )


def _parameter(entry: Entry, name: str) -> Parameter:
    """Return the parameter of this name, or raise with the names that there are."""
    parameter = entry.parameter(name)
    if parameter is None:
        raise unknown(f"parameter of {entry.name} named", name, [p.name for p in entry.parameters])
    return parameter


def build(
    choice: Choice | Own, values: Values, x: Any, rows: Any = None
) -> tuple[Any, tuple[str, ...]]:
    """Return the model from which the fit starts, and notes on what was chosen automatically.

    `rows` holds the number in the file of each row of x.
    """
    if isinstance(choice, Choice):
        return _family(choice.entry, values, x)
    model = _own(choice, values)
    _check_values(choice, model, x, rows)
    return model, (f"The model is {choice}.", *values.notes(), *_unconstrained(model))


def _unconstrained(model: Any) -> tuple[str, ...]:
    """Return a note on the parameters that may take any value, for a model made from a function."""
    import minstein as ms
    from minstein.models.functions import FromLogDensity

    if not isinstance(model, FromLogDensity):
        return ()
    free = zip(ms.params.names(model), ms.params.links(model), strict=True)
    names = [name for name, link in free if link == "identity"]
    if not names:
        return ()
    verb = "is" if len(names) == 1 else "are"
    advice = "--positive NAME keeps a parameter above 0."
    return (f"{', '.join(names)} {verb} unconstrained and may become negative; {advice}",)


# Families of the catalogue


def _family(entry: Entry, values: Values, x: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the family at its start on the data, except for parameters that the user gave, and notes."""
    from .library import resolve

    family, d = resolve(entry), x.shape[1]
    form, about_form = _form(entry, values, d)
    fields = {p.name: _initial(p, d, form) for p in entry.parameters}
    about_shapes = _shape_notes(entry, values, fields)
    given = {**values.settings, **values.fixed, **values.starts}
    fields |= {p.name: given[p.name] for p in entry.parameters if p.held and p.name in given}
    try:
        placed = family(**fields)
        placed = placed.start(x) if hasattr(placed, "start") else placed
        fields = {name: getattr(placed, name) for name in fields}
        model = family(**fields | _given_fields(entry, values, d))
    except ValueError as reason:
        raise Problem(str(reason)) from reason
    return model, (*about_form, *_pairs(entry, d), *values.notes(), *about_shapes)


def _shape_notes(entry: Entry, values: Values, fields: dict[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each shape parameter that is held at its default."""
    given = {**values.settings, **values.fixed, **values.starts}
    return tuple(
        f"{p.name} is held at {fields[p.name]:g}, the default: "
        f"--set {p.name}=… changes it, --start {p.name}=… fits it."
        for p in entry.parameters
        if p.held and p.name not in given
    )


def _given_fields(entry: Entry, values: Values, d: int) -> dict[str, Any]:
    """Return the values of --fix, which are held, and of --start, which also free shape parameters."""
    import minstein as ms

    shaped = lambda name, value: _like(_parameter(entry, name), value, d)
    fixed = {name: ms.fixed(shaped(name, value)) for name, value in values.fixed.items()}
    starts = {name: shaped(name, value) for name, value in values.starts.items()}
    fitted = {name: ms.positive(starts[name]) for name in starts if _parameter(entry, name).held}
    return fixed | starts | fitted


def _form(entry: Entry, values: Values, d: int) -> tuple[str, tuple[str, ...]]:
    """Return whether a scale is a number, a vector or a matrix, and a note if the user did not say."""
    if d == 1 or not any(p.shape == "scale" for p in entry.parameters):
        return "scalar", ()
    told = values.settings.get("scale")
    if told is not None:
        return told, ()
    if "scale" in values.fixed or "scale" in values.starts:
        return "scalar", ()
    if d <= _FULL_UP_TO:
        return "full", (
            "scale is a lower-triangular matrix; --set scale=diagonal or scale=scalar simplifies it.",
        )
    why = f"because there are more than {_FULL_UP_TO} variables; --set scale=full or scale=scalar changes that"
    return "diagonal", (f"scale is one number for each variable, {why}.",)


def _initial(parameter: Parameter, d: int, form: str) -> Any:
    import numpy as np

    if parameter.shape == "scale":
        return {"scalar": 1.0, "diagonal": np.ones(d), "full": np.eye(d)}[form]
    if parameter.shape == "number":
        default = parameter.default
        return default.at(d) if isinstance(default, Formula) else default
    return _like(parameter, 1.0 if parameter.shape == "rate" else 0.0, d)


def _like(parameter: Parameter, value: Any, d: int) -> Any:
    """Return a number repeated for each entry of the parameter, and anything else unchanged."""
    import numpy as np

    entries = _entries(parameter, d)
    return value if entries is None or np.ndim(value) else np.full(entries, value)


def _entries(parameter: Parameter, d: int) -> int | None:
    """Return the number of entries of a vector, or None if the parameter need not be one."""
    if parameter.shape in ("location", "rate"):
        return d if d > 1 else None
    return {"site": d, "pair": d * (d - 1) // 2}.get(parameter.shape)


def _pairs(entry: Entry, d: int) -> tuple[str, ...]:
    """Return a note on which pair of variables each coupling belongs to."""
    if d < 3 or not any(p.shape == "pair" for p in entry.parameters):
        return ()
    return (
        f"coupling has an entry for each pair of columns, in the order [0]–[1], [0]–[2], …, [{d - 2}]–[{d - 1}].",
    )


# A user's own model


def _own(where: Own, values: Values) -> Any:
    import minstein as ms

    thing = own.load(where)
    try:
        model = _make(where, thing, values)
        for name, value in values.fixed.items():
            model = _with_held(model, name, value)
        for name in values.positive:
            model = _with_positive(model, name)
        for name, value in values.starts.items():
            model = _with_start(model, name, value)
    except (ValueError, TypeError) as reason:
        raise Problem(f"{where}: {reason}") from reason
    if not ms.params.names(model):
        raise Problem(
            f"{where} has no free parameters: write 1.0 instead of 1, or hold fewer of them."
        )
    return model


def _check_values(where: Own, model: Any, x: Any, rows: Any) -> None:
    """Raise if the model is not finite on the data.

    The score may be finite where log p is NaN, so a fit would not notice.
    """
    import jax
    import numpy as np

    from minstein.data.in_memory import as_rows

    with jax.enable_x64(True):
        values = np.asarray(jax.vmap(model)(as_rows(x).local))
    bad = np.flatnonzero(~np.isfinite(values)) if values.ndim == 1 else np.zeros(0)
    if bad.size:
        share = f"{bad[0] + 1} of the share of this process"
        row = f"row {share if rows is None else rows[bad[0]]}"
        raise Problem(
            f"{where} returns {values[bad[0]]} at {bad.size} of {len(values)} observations, "
            f"the first in {row}. Start from values at which it is finite (--start NAME=VALUE), or leave out "
            "observations that are impossible under the model."
        )


def _make(where: Own, thing: Any, values: Values) -> Any:
    """Return the model that the user's object is or makes.

    It is the object itself, what a class or function makes from --set, or a model from a function
    fn(params, x) with the parameters of --start and --fix.
    """
    import minstein as ms

    if inspect.isclass(thing) or inspect.isroutine(thing):
        if _is_log_density(thing):
            params = {**values.settings, **values.fixed, **values.starts}
            if not params:
                raise Problem(
                    f"{where} is a function of (params, x). Give its parameters: --start NAME=VALUE."
                )
            return ms.models.from_log_density(thing, params)
        thing = thing(**values.settings)
    elif values.settings:
        raise Problem(
            f"{where} is a finished model, so --set does not apply. Use --fix or --start."
        )
    if not callable(thing):
        raise Problem(
            f"{where} is not a model: a model is called on one point x and returns log p(x) up to a constant."
        )
    return thing


def _is_log_density(thing: Any) -> bool:
    """Whether an object is a function fn(params, x)."""
    if inspect.isclass(thing):
        return False
    required = [
        p.name for p in inspect.signature(thing).parameters.values() if p.default is p.empty
    ]
    return len(required) == 2 and required[1] == "x"


def _with_held(model: Any, name: str, value: Any) -> Any:
    """Return the model with a whole leaf held at a value."""
    import numpy as np

    import minstein as ms

    leaves = ms.params.leaves(model)
    if name not in leaves:
        raise unknown("parameter to hold named", name, leaves)
    shape = np.shape(ms.params.plain(leaves[name]))
    return ms.params.with_leaf(model, name, ms.fixed(_broadcast(name, value, shape)))


def _with_positive(model: Any, name: str) -> Any:
    """Return the model with a whole leaf marked as positive, at its present value."""
    import minstein as ms

    leaves = ms.params.leaves(model)
    if name not in leaves:
        raise unknown("parameter named", name, leaves)
    return ms.params.with_leaf(model, name, ms.positive(ms.params.plain(leaves[name])))


def _with_start(model: Any, name: str, value: Any) -> Any:
    """Return the model with a leaf, or one entry of it, set to a value."""
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
        raise Problem(f"--start {name}: the value is outside the range of the parameter.")
    return started


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    if np.ndim(value) and np.shape(value) != shape:
        raise Problem(f"{name} has shape {shape}, and the value has shape {np.shape(value)}.")
    return np.broadcast_to(np.asarray(value, np.float64), shape).copy()
