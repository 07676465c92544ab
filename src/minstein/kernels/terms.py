"""The radial terms of a kernel, as kernels built from others need them."""

from collections.abc import Callable

from ._kernel import AbstractKernel, Term


def radial_terms(kernel: AbstractKernel) -> tuple[Term, ...] | None:
    """The terms of a kernel, or None if one of them is not radial."""
    parts = kernel.terms() or ()
    radial = tuple(part for part in parts if isinstance(part, Term))
    return radial if parts and len(radial) == len(parts) else None


def replace_terms(kernel: AbstractKernel, **changes: Callable) -> tuple[Term, ...] | None:
    """The terms of a kernel, with the named fields of each replaced, or None."""
    parts = radial_terms(kernel)
    if parts is None:
        return None
    keep = lambda term: {name: getattr(term, name) for name in term.__dataclass_fields__}
    return tuple(
        Term(**{**keep(term), **{name: change(term) for name, change in changes.items()}})
        for term in parts
    )


def check_scalar(owner: str, kernel: AbstractKernel) -> AbstractKernel:
    """Return the kernel, or raise if it is a matrix kernel."""
    parts = radial_terms(kernel)
    if parts is not None and not all(term.is_scalar for term in parts):
        raise TypeError(
            f"{owner} needs a scalar kernel, got the matrix kernel {type(kernel).__name__}."
        )
    return kernel
