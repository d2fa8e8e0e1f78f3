"""Functions that run interpreted at first, and compiled to machine code by numba once a process uses them much."""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from inspect import getmembers, isfunction
from pathlib import Path
from threading import Thread
from types import FunctionType, ModuleType
from typing import Any

from formulations.interruption import is_over
from themis_opt.base.clock import SEARCH_CLOCK

# With colours numba swaps the standard streams while it compiles in the background: what is printed is lost.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

COMPILED_LOG = logging.getLogger(__name__)  # told where a function is compiled that a machine has not compiled before

_patient = True


def compile_at_once() -> None:
    """Interpret nothing from now on: for processes that live long, or measure time."""
    global _patient
    _patient = False


class FirstUse:
    """A first use of compiled functions, which takes seconds without a cache on disk and cannot be interrupted.

    `use`: is called in a separate thread.
    """

    def __init__(self, use: Callable[[], None]) -> None:
        self._use = use

    @cached_property
    def _thread(self) -> Thread:
        thread = Thread(target=self._use)  # no daemon: LLVM aborts where the process ends under it
        thread.start()
        return thread

    def is_over(self, seconds: float | None) -> bool:
        """Begin it, if it has not begun; whether it is over within some seconds (None: however long it takes).

        No limit on time counts the wait.
        """
        SEARCH_CLOCK.stop()
        try:
            return is_over(self._thread, seconds)
        finally:
            SEARCH_CLOCK.go()


class Compilable:
    """A function of numbers, arrays and named tuples of them, with the same result interpreted and compiled.

    It and what it calls must not allocate: references are not counted, since counting those of every array in every
    call makes the event loop five times slower.  All calls are inlined: to pass on tuples of many arrays would take
    half as long again.

    `*modules`: where the functions that it calls are defined, besides the module of the function itself.
    `patience`: work to interpret before compiling, which takes a moment from the cache on disk and seconds without; by
      default none.
    `nogil`: whether other threads run while the compiled function does.
    """

    def __init__(self, function: Any, *modules: ModuleType, patience: float = 0, nogil: bool = False) -> None:
        self.function, self.patience, self.nogil = function, patience, nogil
        self.modules = (sys.modules[function.__module__], *modules)

    def interprets(self, work: float) -> bool:
        """Whether to interpret so much work, which is counted if so; no more once there is machine code."""
        if not _patient or self.is_loaded or work > self.patience:
            return False
        self.patience -= work
        return True

    @property
    def is_loaded(self) -> bool:
        """Whether there is machine code in this process."""
        return "compiled" in vars(self)

    @cached_property
    def compiled(self) -> Any:
        """The compiled function, from the cache on disk where there is one; the first use loads numba."""
        SEARCH_CLOCK.stop()
        try:
            import numba
        finally:
            SEARCH_CLOCK.go()
        _stop_clock_of_compiler()
        for module in self.modules:
            for _, helper in getmembers(module, isfunction):
                if helper.__module__ == module.__name__ and helper is not self.function:
                    _make_inlinable(helper)
        edition = sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in self.modules)).hexdigest()[:16]
        # Numba finds machine code by this name alone, and not by what the function calls: after a change in one of the
        # modules the old code must not be loaded.
        of_edition = FunctionType(self.function.__code__, self.function.__globals__, self.function.__name__)
        of_edition.__qualname__ = f"{self.function.__qualname__}_{edition}"
        options = {"nogil": self.nogil, "_nrt": False, "no_cfunc_wrapper": True}
        try:
            compiled = numba.njit(cache=True, **options)(of_edition)
        except RuntimeError:  # no folder to cache in is writable
            compiled = numba.njit(**options)(of_edition)
        if not _is_cached(compiled):
            COMPILED_LOG.info(
                "compiling to machine code, once on this machine: about ten seconds, which no time limit counts"
            )
        return compiled


@cache
def _make_inlinable(helper: FunctionType) -> None:
    """Let compiled functions call a function, which becomes a part of them."""
    from numba.extending import register_jitable

    register_jitable(forceinline=True, no_cfunc_wrapper=True, pipeline_class=_compiler_of_parts())(helper)


@cache
def _compiler_of_parts() -> type:
    """A compiler that makes no machine code of a function, because its callers contain it.

    Numba would optimise and translate every function beside its callers, and with it all that it calls.
    """
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    class Part(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
        """Intermediate code of a function, which is linked into that of its callers."""

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, env: Any) -> None:
            """Machine code alone has an environment."""

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        def _optimize_final_module(self) -> None:
            """Callers are optimised as a whole."""

        def _finalize_final_module(self) -> None:
            self._finalized = True

    class CompilerOfParts(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Any:
            state = self.state
            state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
            return super().define_pipelines()

    return CompilerOfParts


@cache
def _stop_clock_of_compiler() -> None:
    """Let no limit on time count what numba compiles in the main thread."""
    from numba.core.event import Event, Listener, register

    class Stop(Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Event) -> None:
            SEARCH_CLOCK.stop()

        def on_end(self, event: Event) -> None:
            SEARCH_CLOCK.go()

    register("numba:compile", Stop())


def _is_cached(compiled: Any) -> bool:
    with suppress(AttributeError):  # without a cache, or one that looks different in this version of numba
        cache = compiled._cache
        return bool((Path(cache._cache_path) / cache._cache_file._index_name).exists())
    return False
