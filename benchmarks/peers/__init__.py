"""Other packages that compute the same thing, each in an environment of its own that is made when first wanted."""

import shutil
import sys
from pathlib import Path

from ..processes import ROOT, run


def environment(requirement: str) -> Path:
    """The interpreter of an environment that holds a peer, such as coreax==1.0.0; raises ProcessError without one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = ROOT / ".venv" / "peers" / f"{version}-{requirement.replace('==', '-')}"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(home)])
        run([str(python), "-m", "pip", "install", "--quiet", requirement, "numpy"])
        ready.touch()
    return python
