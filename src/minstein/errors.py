"""The exceptions and warnings of minstein, and their texts.

Every text says what was given, what is needed, why, what to type instead, and which page of docs/ explains it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from . import status


class PrecisionWarning(UserWarning):
    """Double-precision data are being handled in single precision."""


class StatisticWarning(UserWarning):
    """Another statistic was used than was asked for."""


class BoundaryWarning(UserWarning):
    """The Stein identity has a boundary term, so the estimates are biased."""


class NotConverged(RuntimeError):
    """No minimum was found. `fit` holds what there is."""

    def __init__(self, message: str, fit: Any):
        super().__init__(message)
        self.fit = fit


class SingularInformation(NotConverged):
    """The loss does not change along some direction of the parameters. `fit` holds what there is."""


P = ParamSpec("P")
Problem = TypeVar("Problem")


def explained(page: str) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Let the texts that a function makes, alone or in an exception, end with the page that explains them."""

    def pointing(make: Callable[P, Problem]) -> Callable[P, Problem]:
        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Problem:
            problem = make(*args, **kwargs)
            text = str(problem)
            text = text if " See docs/" in text else f"{text} See docs/{page}."
            if isinstance(problem, BaseException):
                problem.args = (text,)
                return problem
            return cast(Problem, text)

        made.page = page  # type: ignore[attr-defined]  # functions may have attributes; their type has none
        return made

    return pointing


FEW = 8
"""Rows that a text names at the most."""


def rows_text(bad: np.ndarray) -> str:
    """Name the rows where `bad` is true: '3 of 100 rows (rows 4, 17, 56)'."""
    where = np.flatnonzero(bad)
    return _rows_text(where[:FEW].tolist(), len(where), len(bad))


def _rows_text(first: Any, count: int, n: int) -> str:
    shown = ", ".join(map(str, first)) + (", …" if count > len(first) else "")
    return f"{count} of {n} rows ({'row' if count == 1 else 'rows'} {shown})"


@explained("sharp-bits.md")
def wrong_shape(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"x must have shape (n, d) or (n,), got {shape}. Each row is one observation.")


@explained("sharp-bits.md")
def empty_sample(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"x has no observations or no coordinates: its shape is {shape}.")


@explained("sharp-bits.md")
def not_floating(dtype: object) -> TypeError:
    return TypeError(
        f"x must be floating point, got {dtype}. The discrepancies here differentiate log p in x, "
        "which needs continuous data. If your measurements merely happen to be whole numbers, "
        "pass x.astype(float)."
    )


@explained("sharp-bits.md")
def not_finite(bad: np.ndarray) -> ValueError:
    return ValueError(
        f"x has NaN or infinite entries in {rows_text(bad)}. "
        "Remove them, for example with x[np.isfinite(x).all(axis=1)]."
    )


@explained("discrete.md")
def not_in_space(bad: np.ndarray, space: Any) -> ValueError:
    return ValueError(f"x has values in {rows_text(bad)} that are not in {space!r}, where the model lives.")


@explained("many-machines.md")
def not_by_rows(shape: tuple[int, ...], devices: int) -> ValueError:
    return ValueError(
        f"x has shape {shape} and is spread over {devices} devices otherwise than by rows, each on one device. "
        "Spread it anew: ms.shard(rows), or jax.device_put(x, NamedSharding(mesh, PartitionSpec('rows'))) with a mesh "
        "of one axis."
    )


@explained("many-machines.md")
def blocks_differ(columns: list[int]) -> ValueError:
    return ValueError(
        f"The processes gave rows of different kinds: numbers of columns {', '.join(map(str, columns))}, and perhaps "
        "different types. Each must give ms.shard the same columns, as the same type."
    )


@explained("many-machines.md")
def not_here(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"These {shape[0]} rows are spread over several processes, and this one has only some of them: x.local. "
        "x.on_host(), called by every process, brings them all."
    )


@explained("many-machines.md")
def one_device(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows that are spread over devices. KSD and DKSD with a kernel of ms.kernels, DSM, "
        "SM and the sums over observations of discrete models are. Give x as a NumPy array for one device."
    )


class ProcessLost(RuntimeError):
    """A process that takes part in a fit has ended, so that the others cannot go on."""


@explained("many-machines.md")
def process_lost(reason: str) -> ProcessLost:
    return ProcessLost(
        "A process that has some of the rows has ended or cannot be reached, so there is no result. Its own messages "
        f"say why; start all processes again. ({reason.splitlines()[0][:200]})"
    )


@explained("many-machines.md")
def not_joined(coordinator: str, processes: int, wait: int, reason: str) -> ProcessLost:
    return ProcessLost(
        f"The {processes} processes did not all meet at {coordinator} within {wait} seconds. Usual causes: (a) one of "
        "them was not started, or ended at once: see its messages; (b) that address is not one under which the others "
        f"reach process 0, or its port is taken: choose another. ({reason.splitlines()[0][:200]})"
    )


@explained("large-data.md")
def no_such_file(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"There is no file {path}. ms.OnDisk reads a .npy or a Parquet file.")


@explained("large-data.md")
def not_by_blocks(path: str) -> ValueError:
    return ValueError(
        f"{path} is neither a .npy nor a Parquet file, and others cannot be read in blocks. Write the rows as one of "
        "those: np.save, or pyarrow.parquet.ParquetWriter for more than fit into memory."
    )


@explained("large-data.md")
def unreadable(path: str, reason: str) -> ValueError:
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}.")


@explained("large-data.md")
def not_numbers(path: str, kind: str) -> TypeError:
    return TypeError(
        f"{path} holds {kind}, not real numbers. Python objects are never loaded, because that may run code; of other "
        "columns choose the numeric ones: ms.OnDisk(path, columns=[...])."
    )


@explained("large-data.md")
def needs_arrow(path: str) -> ImportError:
    return ImportError(f"{path} is a Parquet file, which pyarrow reads: pip install pyarrow.")


@explained("large-data.md")
def no_such_column(path: str, name: object, names: tuple[str, ...]) -> ValueError:
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return ValueError(f"{path} has no column {name!r}. It has: {shown}.")


@explained("large-data.md")
def file_changed(path: str) -> RuntimeError:
    return RuntimeError(
        f"{path} was changed after ms.OnDisk had opened it, so that there is no result. Open it again once it is "
        "complete."
    )


@explained("large-data.md")
def unusable_rows(first: tuple[int, ...], count: int, n: int, space: Any) -> ValueError:
    what = f"that are not in {space!r}, where the model lives" if space.discrete else "that are NaN or infinite"
    return ValueError(
        f"x has entries {what}, in {_rows_text(first, count, n)}. Rows on disk are taken as they are: write the file "
        "again without these."
    )


@explained("large-data.md")
def needs_memory(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows on disk. ms.fit, the loss, its derivatives and its sandwich are, for SM, DSM, "
        "for KSD and DKSD with a kernel of ms.kernels, and for the means over observations of discrete models. Take "
        "some rows into memory instead: x.some(100_000)."
    )


@explained("large-data.md")
def disk_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" needs all rows in memory, but they are on disk, whose blocks meet as tiles. '
        "Leave backend out."
    )


@explained("large-data.md")
def too_many_pairs(n: int, hours: float) -> ValueError:
    return ValueError(
        f"{n} rows on disk have {float(n) ** 2:.2g} pairs, about {hours:.2g} hours for each evaluation. Use ms.SM() or "
        "ms.DSM(m), whose work grows with n, or a kernel of finite rank, such as that of ms.design(model, "
        "x.some(10_000), 'efficient'); or fit a sample: x.some(100_000). On the command line: --discrepancy sm, or "
        "--goal efficient."
    )


@explained("large-data.md")
def disk_is_traced() -> TypeError:
    return TypeError(
        "JAX is transforming the model, but rows on disk are read by calls out of compiled code, which have no "
        "derivative. Use ms.value_and_grad(discrepancy, model, x), or rows in memory: x.some(100_000)."
    )


@explained("large-data.md")
def disk_steps(name: str) -> TypeError:
    return TypeError(
        f"{name} visits observations in random order, which is slow on disk. Leave solver out, or use "
        "ms.GaussNewton() or ms.LBFGS(); or fit a sample: x.some(1_000_000)."
    )


@explained("large-data.md")
def in_rows(problem: Exception, start: int, stop: int) -> ValueError:
    return ValueError(f"In rows {start} to {stop - 1}, counted from the first of these: {problem}")


@explained("sharp-bits.md")
def masked(count: int) -> ValueError:
    return ValueError(f"x is a masked array with {count} masked entries. Drop those rows: np.ma.compress_rows(x).")


@explained("discrete.md")
def not_in_alphabet(x: np.ndarray, bad: np.ndarray, values: tuple[float, ...]) -> ValueError:
    letters = ", ".join(f"{v:g}" for v in values)
    others = np.unique(x[bad])
    shown = ", ".join(f"{v:g}" for v in others[:4]) + (", …" if len(others) > 4 else "")
    do = ""
    if set(np.unique(x)) <= {0.0, 1.0}:
        do = " Write 2 * x - 1 for spins."
    elif set(np.unique(x)) <= {-1.0, 1.0}:
        do = " Write (x + 1) / 2 for zeros and ones."
    elif len(others) > 20:
        do = " These look like continuous data: use a model on the reals, or round them."
    return ValueError(
        f"x has values {shown} in {rows_text(np.asarray(bad.any(axis=1)))}, but the model lives on the alphabet "
        f"{{{letters}}}.{do}"
    )


@explained("discrete.md")
def not_counts(x: np.ndarray, bad: np.ndarray) -> ValueError:
    shown = ", ".join(f"{v:g}" for v in np.unique(x[bad])[:4])
    return ValueError(
        f"x has values {shown} in {rows_text(np.asarray(bad.any(axis=1)))}, but the model is one of counts 0, 1, 2, … "
        "For measurements on a continuous scale use a model on the reals."
    )


@explained("discrete.md")
def too_many_states(letters: int, d: int, most: int) -> ValueError:
    return ValueError(f"{letters}^{d} states are too many to enumerate; at most {most} are.")


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
def bad_neighbours(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(f"neighbours(x) must return states of shape (k, {d}) for one x of shape ({d},), got {shape}.")


@explained("discrete.md")
def asymmetric_neighbours(what: str) -> ValueError:
    return ValueError(
        f"The neighbourhood is not symmetric: {what}. Probability flows both ways along an edge, or the flow does not "
        "vanish at the truth."
    )


@explained("discrete.md")
def looks_up() -> TypeError:
    return TypeError(
        "MPF with form='kl' or 'l1' looks up which neighbours were observed, which jit, vmap and minibatches do not "
        "allow. Use form='mean' there."
    )


@explained("discrete.md")
def nothing_unobserved() -> ValueError:
    return ValueError(
        "Every neighbour of every observation was itself observed, so that MPF with form='kl', which counts the flow "
        "to states that were not, is zero for every θ. Use form='mean'."
    )


@explained("discrete.md")
def bad_log_density(bad: np.ndarray) -> ValueError:
    return ValueError(
        f"log p is not finite at {rows_text(bad)}. Usual causes: (a) a parameter out of its range: mark it with "
        "ms.positive(...); (b) an observation to which the model gives no probability."
    )


@explained("discrete.md")
def bad_ratio(value: float) -> ValueError:
    return ValueError(
        f"The discrepancy is {value} although log p is finite at every observation. Usual cause: a neighbouring state "
        "that is far more probable than the observation, so that a ratio overflows: start nearer to the data."
    )


@explained("discrete.md")
def no_sandwich_for_flow(form: str) -> str:
    return (
        f"No standard errors: MPF with form='{form}' depends on which neighbours were observed, so that it is no "
        "mean of independent terms, as the sandwich needs. Use ms.bootstrap(fit, x, key), or form='mean'."
    )


@explained("discrete.md")
def no_sandwich_for_chains() -> str:
    return (
        "No standard errors: contrastive divergence follows a random update, the gradient of no loss whose Hessian the "
        "sandwich could use. Use ms.bootstrap(fit, x, key)."
    )


@explained("discrete.md")
def no_transition(kernel: Any) -> TypeError:
    return TypeError(
        "A Markov kernel is one of ms.markov, made with its arguments, such as ms.markov.RandomWalk(0.5), or a "
        f"function kernel(model, x, key) that returns the next point; got {kernel!r}."
    )


@explained("discrete.md")
def bad_transition(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(f"The Markov kernel must return a point of shape ({d},) for a point of that shape, got {shape}.")


@explained("discrete.md")
def continuous_kernel(name: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} moves on ℝᵈ, but the model lives on {space!r}. Use ms.markov.Gibbs() or ms.markov.SingleFlip()."
    )


@explained("discrete.md")
def not_invariant(what: str, z: float) -> ValueError:
    return ValueError(
        f"The kernel does not leave the model invariant: draws from the model that take one step change {what}, by "
        f"{z:.1f} standard errors. A Metropolis kernel needs the ratio of the model at both points and of the proposal "
        "both ways; contrastive divergence with this kernel would not estimate the model's parameters."
    )


@explained("discrete.md")
def never_moves(text: str) -> ValueError:
    return ValueError(
        f"{text} Take a smaller step, start the model nearer to the data, or use another kernel; a chain that stays "
        "where it is says nothing about the model."
    )


@explained("discrete.md")
def chains_need_steps(solver: str) -> TypeError:
    return TypeError(
        f"{solver} minimises a loss, and contrastive divergence has none, only a random update. "
        "Use ms.RiemannianSGD, ms.SGD, or leave out solver=..."
    )


@explained("discrete.md")
def bad_growth(value: float) -> ValueError:
    return ValueError(
        f"The contrastive divergence is {value}. Usual causes: (a) log p is not finite at an observation; "
        "(b) a kernel that walks to where log p is not finite."
    )


@explained("choosing.md")
def too_few(n: int) -> ValueError:
    return ValueError(
        f"A U-statistic of degree two needs at least 2 observations, got {n}. "
        "Use unbiased=False for the V-statistic, or give more data."
    )


@explained("large-data.md")
def unknown_backend(got: Any, backends: tuple[str, ...]) -> ValueError:
    names = ", ".join(f'"{name}"' for name in backends)
    return ValueError(f"backend must be one of {names}, or None to choose by size, dimension and kernel; got {got!r}.")


@explained("large-data.md")
def no_lines(why: str) -> ValueError:
    return ValueError(
        f'backend="lines" sums pairs in linear time on the line, but {why}. It needs data of one variable and sums or '
        "multiples of the kernels Gaussian, IMQ, RationalQuadratic (of small exponents) and Matern. "
        'Use backend="tiles", or None to choose.'
    )


@explained("large-data.md")
def no_fourier(why: str) -> ValueError:
    return ValueError(
        f'backend="fourier" sums pairs in two or three dimensions by fast Fourier transforms, but {why}. It needs '
        "kernels Gaussian, IMQ or RationalQuadratic, their sums or multiples, and a diffusion that is a number or "
        'diagonal. Use backend="tiles", or None to choose.'
    )


@explained("large-data.md")
def too_large(need: int, free: int, shape: tuple[int, ...]) -> MemoryError:
    return MemoryError(
        f"A fit of data of shape {shape} by sums over pairs needs about {need / 1e9:.2g} GB of memory beside the data, "
        f"and {free / 1e9:.2g} GB are free. Fit some of the rows, take ms.SM() or ms.DSM(...), which are means over "
        "observations, or spread the rows over machines with ms.shard."
    )


@explained("large-data.md")
def parts_too_small(rows: Any, fewest: int) -> ValueError:
    return ValueError(f"Parts: rows must be a whole number of observations, {fewest} or more, got {rows!r}.")


@explained("large-data.md")
def no_landmarks(landmarks: Any) -> ValueError:
    return ValueError(f"Nystrom: landmarks must be a whole number of observations, 1 or more, got {landmarks!r}.")


@explained("large-data.md")
def landmarks_elsewhere() -> TypeError:
    return TypeError(
        "The influence of points that are not in the sample is not computed for a Nyström approximation. That of every "
        'observation is: ms.influence(fit, x); or fit some rows with backend="tiles".'
    )


@explained("large-data.md")
def only_landmarks(landmarks: int) -> str:
    return (
        f"The kernel is the Nyström approximation on {landmarks} of the observations. The estimate and its standard "
        'errors are those of this kernel; backend="tiles" takes the kernel itself.'
    )


@explained("large-data.md")
def only_parts(n: int, parts: int) -> str:
    return (
        f"Only the pairs within {parts} random parts of {n // parts} observations or so were summed, "
        f"{100 / parts:.2g} % of all pairs. The standard errors are those of this estimate, and a little larger than "
        "with all pairs; "
        'backend="tiles" sums these.'
    )


@explained("many-machines.md")
def spread_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" needs all rows in one place, but they are spread over devices, whose blocks meet in '
        "a ring of tiles. Leave backend out."
    )


@explained("large-data.md")
def plain_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" is for kernels of ms.kernels, but this one is a function of two points, whose pairs are '
        "differentiated one by one. Leave backend out."
    )


@explained("your-own-model.md")
def not_scalar(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"model(x) must return a scalar, got shape {shape}. It is called on one point x of shape ({d},), "
        "not on the whole sample: " + ("use x[0]" if d == 1 else "sum over the coordinates") + " inside the model."
    )


@explained("your-own-model.md")
def bad_score(score: np.ndarray) -> ValueError:
    bad = ~np.isfinite(score)
    rows = rows_text(np.asarray(bad.any(axis=1)))
    coordinates = ", ".join(str(j) for j in np.flatnonzero(bad.any(axis=0)))
    return ValueError(
        f"The score ∇log p of the model is not finite at {rows}, coordinate {coordinates}. "
        "Usual causes: (a) an observation outside the support of the model: transform or drop it; "
        "(b) an observation exactly on a singularity or kink of log p: move the location a little; "
        "(c) a parameter out of its range: mark it with ms.positive(...)."
    )


@explained("your-own-model.md")
def bad_feature(what: str, values: np.ndarray) -> ValueError:
    bad = np.asarray(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    return ValueError(f"{what} is not finite at {rows_text(bad)}. Check it on x[{np.flatnonzero(bad)[0]}].")


@explained("your-own-model.md")
def bad_loss(value: float) -> ValueError:
    return ValueError(
        f"The discrepancy is {value} although every score is finite. "
        "Usual causes: (a) an observation exactly on a kink of log p, where score matching finds no second derivative: "
        "move the location a little; (b) overflow, when the data are enormous in units of the model's scale: "
        "standardise x; (c) a kernel that is not finite, or not twice differentiable, on some pair of observations, "
        "such as two equal ones."
    )


@explained("your-own-model.md")
def bad_derivative(what: str) -> ValueError:
    return ValueError(
        f"The {what} is not finite although the loss is. "
        "Usual cause: an observation exactly on a kink of log p, where the score has no derivative: "
        "move the location a little."
    )


@explained("choosing.md")
def bad_field(name: str, shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"{name} must return a scalar, a vector of shape ({d},) or a matrix of shape ({d}, {d}) "
        f"for a point of shape ({d},), got shape {shape}."
    )


@explained("sharp-bits.md")
def model_is_traced() -> str:
    return (
        "x is float64, but the model is being traced by JAX with 64-bit mode off, so the computation falls back to "
        "float32. Use ms.value_and_grad(discrepancy, model, x), which needs no configuration, or put your "
        "transformation inside `with jax.enable_x64(True):`."
    )


@explained("your-own-model.md")
def no_parameters() -> ValueError:
    return ValueError(
        "The model has no free parameters, so there is nothing to differentiate in. Parameters are floating-point "
        "leaves that are not marked fixed: write 1.0 instead of 1, or take off ms.fixed(...)."
    )


@explained("choosing.md")
def theta_dependent_dsm() -> TypeError:
    return TypeError(
        "DSM needs a diffusion that does not depend on the model, because its θ-dependent terms could then not be "
        "estimated. Use DKSD, or hold the diffusion at one model: diffusion.at(model)."
    )


@explained("design.md")
def no_gradient_in_data() -> TypeError:
    return TypeError(
        "A discrepancy is differentiable in the model, not in x or in the kernel's parameters. "
        "For those, differentiate ms.stein_kernel(model, m, kernel), which is plain JAX."
    )


@explained("fitting.md")
def not_converged(fit: Any) -> NotConverged:
    code = int(fit.status)
    kind = SingularInformation if code == status.SINGULAR else NotConverged
    where = ", ".join(f"{name} = {value:.6g}" for name, value in list(fit.params.items())[:8])
    return kind(
        f"{status.MEANING[code]} After {int(fit.steps)} steps: {where}, loss {float(fit.loss):.6g}. "
        f"Usual causes: {status.ADVICE[code]}. With throw=False you get this fit, without standard errors."
        + "".join(f" {note}" for note in fit.notes),
        fit,
    )


@explained("fitting.md")
def no_pilot(fit: Any) -> NotConverged:
    return NotConverged(
        f"The diffusion depends on θ and is held at a pilot fit by KSD, but that fit failed: {fit.message} "
        "Hold it yourself: diffusion=lambda x: fn(model, x), at a model you trust.",
        fit,
    )


@explained("designed.md")
def design_would_help(parameter: str, cut: float) -> str:
    return (
        f"An efficient design would cut the standard error of {parameter} by an estimated {100 * cut:.0f} %, if the "
        "model is true: ms.design(model, x), or --goal efficient. It is less robust against outliers."
    )


@explained("fitting.md")
def no_fixed_point(fit: Any, rounds: int) -> NotConverged:
    return NotConverged(
        f"The diffusion was held again at each fit, but the fits still moved after {rounds} rounds. "
        "Drop refreeze=True: held once, the estimate has the same asymptotic variance.",
        fit,
    )


@explained("fitting.md")
def refreeze_is_traced() -> TypeError:
    return TypeError("refreeze=True needs to look at each fit, which jit and vmap do not allow. Drop it there.")


@explained("fitting.md")
def not_convex() -> str:
    return (
        "The U-statistic of this sample has no minimum near the data (it is not convex), so the V-statistic was "
        "minimised instead. Ask for it with unbiased=False to be without this warning."
    )


@explained("fitting.md")
def no_key(solver: str) -> ValueError:
    return ValueError(f"{solver} draws at random here, so it needs a key: key=jax.random.key(0).")


@explained("fitting.md")
def too_many_for_covariance(p: int) -> ValueError:
    return ValueError(
        f"The model has {p} parameters, too many for the matrix of second derivatives that standard errors need. "
        "Pass covariance=False."
    )


@explained("fitting.md")
def small_batch(batch: int) -> ValueError:
    return ValueError(f"A minibatch needs at least 2 observations, got {batch}.")


@explained("fitting.md")
def bad_checkpoint(path: Any, reason: str) -> ValueError:
    return ValueError(f"The checkpoint {path} cannot be resumed: {reason}. Delete it, or give another path.")


@explained("fitting.md")
def not_in_file(text: str) -> TypeError:
    return TypeError(
        f"{text} was written in Python and is not in the file, which holds no code. "
        "Give it back: ms.load(path, model=...) with the model that was fitted, or discrepancy=..."
    )


@explained("fitting.md")
def not_a_fit(path: Any) -> ValueError:
    return ValueError(f"{path} is not a fit that minstein saved, or it is damaged.")


@explained("fitting.md")
def newer_file(path: Any, version: int, by: Any) -> ValueError:
    return ValueError(f"{path} was written by a newer minstein ({by}, file version {version}). Update minstein.")


@explained("inference.md")
def no_covariance(irregular: str | None) -> ValueError:
    if irregular:
        return ValueError(irregular)
    return ValueError("The fit was made with covariance=False, so it has no standard errors. Fit again without it.")


@explained("inference.md")
def another_sample(got: tuple[int, ...], fitted: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"x has shape {got}, but the fit was made from a sample of shape {fitted}. A fit holds no data: "
        "pass the same x again."
    )


@explained("your-own-model.md")
def boundary_term(edges: Any, x: Any) -> str:
    """For edges as `stein_class` finds them, and the data."""
    where = "; ".join([_edge_text(edge, x) for edge in edges[:3]] + ["…"] * (len(edges) > 3))
    ends = [f"{name}=..." for name, side in (("low", -1), ("high", 1)) if any(edge.side == side for edge in edges)]
    return (
        f"The Stein identity has a boundary term, so estimates are biased: {where}. If that is where the support ends, "
        f"a diffusion that vanishes there removes the term: diffusion=ms.diffusions.bounded({', '.join(ends)})."
    )


def _edge_text(edge: Any, x: Any) -> str:
    name = f"x[{edge.axis}]"
    if np.isfinite(edge.at):
        return f"the support ends at {name} = {edge.at:.6g}, where neither the density nor the diffusion vanishes"
    far, end = ("−∞", x.min(axis=0)[edge.axis]) if edge.side < 0 else ("∞", x.max(axis=0)[edge.axis])
    return f"log p does not fall as {name} → {far} (the data end at {end:.6g}), so on the whole line it is no density"
