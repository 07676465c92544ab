"""From an entry of the catalogue to the object of the library. This loads JAX."""

import importlib
from typing import Any

from .catalogue import Entry


def resolve(entry: Entry) -> Any:
    """'models:Gaussian' is minstein.models.Gaussian; 'KSD' is minstein.KSD."""
    module, colon, name = entry.path.partition(":")
    return getattr(importlib.import_module(f"minstein.{module}" if colon else "minstein"), name or module)
