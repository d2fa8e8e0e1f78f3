"""Specifications of policies for instances of either kind: collectives, or a training iteration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from themis_opt.cli import options
from themis_opt.errors import InputError

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

    if text is None:
        return list(default)
    specifications = [part.strip() for part in text.split(",") if part.strip()]
    if not specifications or len(set(specifications)) < len(specifications):
        raise InputError("must name one or more policies, each once", field="--policies", value=text)
    for specification in specifications:
        if specification != REFERENCE:
            make_iteration_policy(specification)
    return specifications
