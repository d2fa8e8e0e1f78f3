"""Shares of the time in which dimensions are held."""

import pytest
from planning import schedule_of

from themis_opt.policies.registry import specify
from themis_opt.problem.catalog import load
from themis_opt.schedules.explanation import resource_time


@pytest.mark.parametrize("name", ["fig5.all_reduce.256MB", "3d-fc_ring_sw.resnet-50"])
def test_busy_is_what_the_explanation_of_a_resource_says(name):
    instance = load(name)
    schedule = schedule_of(instance, specify("baseline", instance))
    resources = [resource_time(schedule, number) for number in range(instance.num_resources)]
    whole = [resource.busy + resource.lag + resource.idle for resource in resources]
    assert schedule.busy == pytest.approx(
        {resource.name: resource.busy / time for resource, time in zip(resources, whole, strict=True)}, abs=1e-6
    )


def test_a_dimension_that_nothing_spans_is_left_out(figure_5):
    alone = figure_5.replace(collectives=(figure_5.collectives[0].replace(dimensions=("dim2",)),))
    assert list(schedule_of(alone, "baseline").busy) == ["dim2"]
