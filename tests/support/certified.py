"""Certificates of instances of every family in the library."""

from typing import Any

from themis_opt.graphs.certificates import graph_certificate
from themis_opt.graphs.problem import GraphInstance
from themis_opt.problem.instance import Instance
from themis_opt.solving.certificates import certificate


def certificate_of(instance: Instance | GraphInstance) -> dict[str, Any]:
    return graph_certificate(instance) if isinstance(instance, GraphInstance) else certificate(instance)
