"""The terms of a kernel, for kernels that are built from others and for pair sums."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ._kernel import AbstractKernel, Span, Term


def radial(terms: Iterable[Any]) -> tuple[Term, ...]:
    """Those of the terms that have a radial profile; the others are of type `Span` or `Free`."""
    return tuple(term for term in terms if isinstance(term, Term))


def radial_terms(kernel: AbstractKernel) -> tuple[Term, ...] | None:
    """The terms of a kernel, or None unless all of them have a radial profile."""
    terms = kernel.terms() or ()
    return radial(terms) if terms and len(radial(terms)) == len(terms) else None


def replace_terms(kernel: AbstractKernel, **changes: Callable) -> tuple[Term, ...] | None:
    """The terms of a kernel with the named fields of each replaced, or None as in `radial_terms`."""
    terms = radial_terms(kernel)
    if terms is None:
        return None
    new = lambda term: {name: change(term) for name, change in changes.items()}
    return tuple(dataclasses.replace(term, **new(term)) for term in terms)


def join_terms(*parts: tuple[Term | Span, ...] | None) -> tuple[Term | Span, ...] | None:
    """The terms of a sum of kernels, or None if one of the kernels is not reducible."""
    known = [part for part in parts if part is not None]
    return sum(known, ()) if len(known) == len(parts) else None


def check_scalar(owner: str, kernel: AbstractKernel) -> AbstractKernel:
    """Return the kernel, or raise if it is a matrix kernel."""
    if not all(term.is_scalar for term in radial_terms(kernel) or ()):
        raise TypeError(
            f"{owner} needs a scalar kernel, got the matrix kernel {type(kernel).__name__}."
        )
    return kernel
