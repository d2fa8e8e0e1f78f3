"""Random schedules of instances like those of the library, and what its checker says of them."""

import json
from fractions import Fraction
from typing import Any

from library import check, generate

from themis_opt.policies.registry import make_policy
from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule
from themis_opt.schedules.simulator import simulate

FAMILIES = [family for family in generate.FAMILIES if family != "graph"]


def random_schedule(family: str, seed: int) -> tuple[dict[str, Any], Schedule]:
    """An instance of another seed than those of the library, as a document, and a schedule of random orders."""
    number = 1 + seed % generate.FAMILIES[family][0]
    document = generate.FAMILIES[family][1](generate.Draws(f"{family}-{number}", 1_000 + seed), number)
    document |= {"format": "themis-opt/instance/1"}
    for part in document.get("collectives", [document]):
        part["chunks"] = min(part.get("chunks", 64), 1 + seed % 6)
    instance = Instance.model_validate(document)
    launching = ("", "ddp/", "wait_free/")[seed % 3] if family == "iteration" else ""
    rule = "+scf" if seed % 2 else ""
    return document, simulate(instance, make_policy(f"{launching}random:seed={seed}{rule}")(instance))


def judged(document: dict[str, Any], table: dict[str, Any], **others: Any) -> check.Verdict:
    return check.judge(json.loads(json.dumps(document), parse_float=Fraction), table, **others)
