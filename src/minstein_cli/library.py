"""Looking up the object of the library that an entry of the catalogue names. This loads JAX."""

import functools
import importlib
from typing import Any

from .catalogue import Entry


def resolve(entry: Entry) -> Any:
    """Return minstein.models.Gaussian for 'models:Gaussian', and minstein.KSD for 'KSD'."""
    return functools.reduce(getattr, entry.path.split(":"), importlib.import_module("minstein"))
