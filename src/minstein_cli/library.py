"""From an entry of the catalogue to the object of the library. This loads JAX."""

import functools
import importlib
from typing import Any

from .catalogue import Entry


def resolve(entry: Entry) -> Any:
    """'models:Gaussian' is minstein.models.Gaussian; 'KSD' is minstein.KSD."""
    return functools.reduce(getattr, entry.path.split(":"), importlib.import_module("minstein"))
