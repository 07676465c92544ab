"""One case in this process."""

import importlib
import json
import os
import sys

from . import CASES


def main(name: str) -> None:
    case = CASES[name]
    if case.one_core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for row in importlib.import_module(f"{__package__}.{case.module}").rows():
        print(json.dumps(row.as_dict()), flush=True)


main(sys.argv[1])
