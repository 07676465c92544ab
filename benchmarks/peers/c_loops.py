"""A yardstick in C: what a native tile could take on one core, with loops made for the dimension."""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ..closed_form import Fields, standard_normal

SOURCE = Path(__file__).with_name("loops.c")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-lm")


def calls(x: np.ndarray) -> dict[str, Callable]:
    fields = compiled(x.shape[1])
    return {"": lambda: standard_normal(x, fields)}


@cache
def compiled(d: int) -> Fields:
    """F and J of `closed_form`, for d coordinates."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loops.so"
        subprocess.run(["cc", str(SOURCE), f"-DDIMENSION={d}", "-o", str(library), *FLAGS], check=True)
        loops = ctypes.CDLL(str(library)).fields
    pointer = lambda array: array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    def fields(x: np.ndarray, b: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, b = np.ascontiguousarray(x.T), np.ascontiguousarray(b.T)
        F, J = np.zeros_like(x), np.zeros_like(m)
        loops(len(m), *map(pointer, (x, b, m, F, J)))
        return F.T, J

    return fields
