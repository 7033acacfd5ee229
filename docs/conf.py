"""Settings of the documentation site: `sphinx-build -W -b html docs site`.

The environment variable DOCS_SOURCE_URL is the address of the repository's files on a Git host,
such as https://host/name/blob/main. Links to files outside `docs/` lead there. Without it the site
has copies of these files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The extensions import the library, on any backend. PyTorch needs the least time.
os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_DOCS = Path(__file__).parent
sys.path[:0] = [str(_DOCS / "_ext"), str(_DOCS.parent)]

from docstring_blocks import VALUES

import bert_keras

project = "bert_keras"
author = "The bert_keras authors"
project_copyright = author
release = version = bert_keras.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstring_blocks",
    "outside_pages",
    "reference_pages",
]
# Jupytext's `.py` files are the sources of the notebooks; the site shows the stored results.
exclude_patterns = ["_build", "_ext", "notebooks/*.py", "notebooks/.ipynb_checkpoints"]

myst_enable_extensions = ["strikethrough"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [(VALUES, "params_style")]
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries = False
# Docstrings have the names of code between single backticks.
default_role = "code"

source_url = os.environ.get("DOCS_SOURCE_URL", "")
outside_pages = {
    "benchmark_notes": "benchmarks/results/NOTES.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "examples": "examples/README.md",
    "saved_models": "saved_models/README.md",
    "security": "SECURITY.md",
}

html_theme = "furo"
html_title = f"bert_keras {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a6", "color-brand-content": "#5fd3a6"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
