"""How Sphinx builds the documentation: `make docs`."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

# Examples run once, so that compiling them takes longer than running them.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import minstein  # noqa: E402

# The gallery runs copies of the examples under out/, so that what they write does not land among the sources.
EXAMPLES = HERE.parent / "out" / "examples"
shutil.copytree(HERE.parent / "examples", EXAMPLES, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))

project = "minstein"
author = copyright = "the minstein developers"
release = version = minstein.__version__
language = "en_GB"

extensions = [
    "building",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["figures/*"]
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = "minstein"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["minstein.css"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
autosummary_generate = False
default_role = "code"
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "building.in_order",
    "reset_argv": "building.quickly",
    "reset_modules": ("matplotlib",),
    "parallel": 2,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
}
