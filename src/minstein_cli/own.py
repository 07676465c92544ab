"""Loading an object from a user's own code. This runs that code."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .problem import Problem
from .spec import Own


def load(own: Own) -> Any:
    """Return the object that the user names."""
    try:
        module = _file(Path(own.place)) if own.is_file else _module(own.place)
    except (Exception, SystemExit) as reason:
        raise Problem(
            f"{own.place} could not be run: {type(reason).__name__}: {reason}"
        ) from reason
    if not hasattr(module, own.name):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise Problem(f"{own.place} has no {own.name!r}. It has: {', '.join(public) or 'nothing'}.")
    return getattr(module, own.name)


def _file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)
