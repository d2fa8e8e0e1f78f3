"""The ``themis-opt`` command."""

import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from themis_opt.base.errors import ThemisError
from themis_opt.base.extras import needed
from themis_opt.base.version import __version__
from themis_opt.cli.process import BAD_INPUT, INTERRUPTED

MODULES: Mapping[str, tuple[str, ...]] = {
    "compare": ("demo", "solve", "compare"),
    "questions": ("bound", "simulate", "validate", "explain", "plot", "export", "show", "schema"),
    "sweep": ("robustness", "sweep"),
    "run": ("run", "calibrate"),
    "batch": ("batch", "report"),
    "importing": ("generate", "import"),
    "tune": ("plan", "tune"),
    "design": ("design",),
    "workload": ("workload",),
    "best_known": ("best-known",),
    "listing": ("list",),
}
FUNCTIONS = {"import": "import_command", "list": "list_names", "best-known": "best_known"}
COMMANDS: Mapping[str, str] = {
    name: f"themis_opt.cli.{module}:{FUNCTIONS.get(name, name)}" for module, names in MODULES.items() for name in names
}
"""Import path of each subcommand; these modules import nothing heavy before they run."""


def application() -> typer.Typer:
    """The command with all its subcommands."""
    app = typer.Typer(
        name="themis-opt",
        help="Schedules of collective communication, with proven gaps.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=_Commands,
    )
    app.callback()(_main)
    for name, path in COMMANDS.items():
        module, _, function = path.partition(":")
        command = getattr(import_module(module), function)
        app.command(name, cls=_Command, help=inspect.getdoc(command))(_guarded(command))
    return app


class _Commands(TyperGroup):
    """The command with errors of its usage worded as all others: ``error: ...``."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command line, and end the process unless told otherwise."""
        standalone = options.pop("standalone_mode", True)
        try:
            code = super().main(*arguments, **options | {"standalone_mode": False})
        except Exception as error:
            if not hasattr(error, "show"):  # only errors of usage can show themselves
                raise
            shown = io.StringIO()
            error.show(shown)
            text = shown.getvalue().replace("Error: ", "error: ", 1).replace("Value error, ", "", 1)
            with suppress(OSError):
                typer.echo(text, err=True, nl=False)
            code = BAD_INPUT
        if standalone:
            sys.exit(code)
        return code


class _Command(TyperCommand):
    """A command whose summary stands whole in the list of commands, and whose ``--recompute`` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line."""
        for place, (word, following) in enumerate(pairwise((*args, ""))):
            if word == "--recompute" and following not in ("full", "selective"):
                args[place] = "--recompute=full"
        return super().parse_args(ctx, args)

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence of the help, whatever the limit of click says."""
        return " ".join((self.help or "").split("\n\n")[0].split())


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"themis_opt {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Schedules of collective communication, with proven gaps."""


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with errors as one line and the documented exit codes."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except ThemisError as error:
            for each in (error, *getattr(error, "others", ())):
                _tell(f"error: {each}")
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            _tell("interrupted: there is no result yet")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader of our output went away
            _print_nowhere()
            raise typer.Exit(0) from None
        except ModuleNotFoundError as error:
            _tell(f"error: {needed(error)}")
            raise typer.Exit(BAD_INPUT) from None
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            _tell(f"error: {place}{error.strerror or error}")
            _print_nowhere()
            raise typer.Exit(BAD_INPUT) from None

    return guarded


def _tell(line: str) -> None:
    from themis_opt.cli.printing import tell  # what it needs takes longer than all else of ``--help``

    tell(line)


def _print_nowhere() -> None:
    """Let what is still buffered go nowhere, since the interpreter would fail over it at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
