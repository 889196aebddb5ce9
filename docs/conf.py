"""Settings of the documentation site. ``make docs`` builds it; ``make docs-quick`` does not run the examples."""

from __future__ import annotations

import sys
from pathlib import Path

import ghrr

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "ghrr"
author = copyright = "The ghrr developers"
version = release = ghrr.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # in docs/_extensions
    "code_blocks",
    "command_line",
    "mathml",
    "member_order",
    "public_names",
    "thumbnails",
]
exclude_patterns = ["_build", "_extensions", "_templates", "generated/**/*.ipynb", "generated/**/*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# -- Markdown ---------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# -- API --------------------------------------------------------------------------------------------------------------
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "inherited-members": "Module, Exception, dict, list, tuple, object",  # up to these base classes
}
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autosummary_generate = False
python_display_short_literal_types = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes in the text of their class
napoleon_use_rtype = False
napoleon_custom_sections = ["Shapes", "Law", "Laws"]

# Warnings are errors, and every reference must resolve. Types of other projects have no page here.
nitpicky = True
nitpick_ignore_regex = [
    (
        "py:.*",
        r"Tensor|(torch|transformers|numpy|pandas|sklearn|networkx|typing|collections|contextlib|pathlib|os|types|rich)\..*",
    ),
    ("py:class", r"ghrr\.(_.*|documents\.(Key|Path|Integers)|memory\.segment\..*|structures\.path_tree\..*)|Items"),
    ("py:class", r"Path|Integers|Result"),
    ("py:class", r"ghrr\.(checks\.TensorInSpace|seeding\.Keys)|ghrr_lab\.paper\.experiment\..*"),
    ("py:class", r"ghrr\.search\.(bags|encoder|kernel_fields|store)\..*"),
    ("py:class", r"ghrr\.learn\.(base|graph_colours|table_models)\..*|pd\.DataFrame|Figure"),
    ("py:class", r"ghrr\.search\.(bags|encoder|kernel_fields)\..*|dict\[str"),  # the type of a field of a named tuple
]

# -- Examples ---------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "tutorials"), str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["generated/tutorials", "generated/gallery"],
    "filename_pattern": r"\.py$",  # all scripts run, whatever their name
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # also where the script is unchanged: the library may have changed
    "download_all_examples": False,
    "image_srcset": ["2x"],
    "reference_url": {"ghrr": None},  # names in the code link to the API pages
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "nested_sections": False,
}

# -- HTML -------------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"ghrr {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"  # without one, browsers ask for a file that does not exist
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0067a3", "color-brand-content": "#0067a3"},
    "dark_css_variables": {"color-brand-primary": "#6fbcf0", "color-brand-content": "#6fbcf0"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
