"""Random schedules of instances like those of the library, and what its checker says of them."""

import json
from fractions import Fraction
from typing import Any

from library import check, generate
from planning import schedule_of

from themis_opt.problem.instance import Instance
from themis_opt.schedules.schedule import Schedule

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
    return document, schedule_of(instance, f"{launching}random:seed={seed}{rule}")


def judged(document: dict[str, Any], table: dict[str, Any], **others: Any) -> check.Verdict:
    return check.judge(json.loads(json.dumps(document), parse_float=Fraction), table, **others)
