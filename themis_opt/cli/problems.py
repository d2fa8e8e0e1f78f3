"""Specifications of policies for instances of either kind: collectives, or a training iteration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from themis_opt.cli import options

if TYPE_CHECKING:
    from themis_opt.instance import Instance
    from themis_opt.iteration_instance import IterationInstance


def choose_policies(problem: "Instance | IterationInstance", text: str | None, default: Sequence[str]) -> list[str]:
    """The specifications in a list with commas; where there is none, `default`, or those compared on iterations.

    Raises
    ------
    InputError
        If the list names no policy, one twice, or one that is unknown.
    """
    from themis_opt.instance import Instance
    from themis_opt.iterations.registry import COMPARED

    if isinstance(problem, Instance):
        return options.split_policies(text, default)
    return split_iteration_policies(text, COMPARED)


def split_iteration_policies(text: str | None, default: Sequence[str]) -> list[str]:
    """The specifications in a list with commas; `default` where there is none.

    Raises
    ------
    InputError
        If the list names no policy, one twice, or one that is unknown.
    """
    from themis_opt.iterations.registry import REFERENCE, make_iteration_policy

    def check(specification: str) -> None:
        if specification != REFERENCE:
            make_iteration_policy(specification)

    return options.split_policies(text, default, check)
