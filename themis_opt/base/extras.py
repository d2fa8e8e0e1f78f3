"""Packages that come with an extra of the project."""

from importlib.util import find_spec

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


def missing(extra: str) -> ModuleNotFoundError | None:
    """The error of the first package of an extra that is missing; nothing is imported."""
    name = next((name for name in EXTRAS[extra] if find_spec(name) is None), None)
    return ModuleNotFoundError(name=name) if name else None
