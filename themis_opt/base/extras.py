"""Packages that come with an extra of the project."""

EXTRAS = {
    "pictures": ("altair", "jinja2", "markupsafe", "matplotlib", "platformdirs", "vl_convert"),
    "tuning": ("optuna",),
    "torch": ("torch",),
    "bfloat16": ("ml_dtypes",),
}
"""What stands in ``[project.optional-dependencies]``, as it is imported."""


def needed(error: ImportError) -> str:
    """What to install where a package is missing. Raises the error itself if no extra brings the package."""
    name = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if name in packages:
            return f"needs {name}: pip install 'themis-opt[{extra}]'"
    raise error
