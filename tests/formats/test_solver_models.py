"""Models for other solvers: read and solved by plain OR-Tools, their optima are those of the formulations."""

import re

import pytest
from ortools.linear_solver.python import model_builder
from ortools.sat.python import cp_model
from planning import schedule_of

from formulations.chunk_order import ChunkOrder
from formulations.limits import Limits
from formulations.sequencing import num_order_variables
from themis_opt.base.errors import InputError, InvalidSchedule
from themis_opt.formats.exports import export, make_exporter
from themis_opt.formats.readers.registry import load
from themis_opt.formats.solver_models import LINEAR_RESOLUTION
from themis_opt.solving.lowering import in_ticks, job_plans

BUDGET = Limits(seconds=60, workers=1, gap=0.0)


def schedule(chunks=3, policy="themis+scf"):
    instance = load("fig5.all_reduce.256MB").overridden(chunks=chunks)
    return schedule_of(instance, policy)


def silent(makespan, bound):
    """Hear nothing."""


def test_the_optimum_of_the_exported_model_is_that_of_the_formulation(tmp_path):
    scheduled = schedule()
    (path,) = export(scheduled, "model:form=text", tmp_path)
    solver, model = cp_model.CpSolver(), cp_model.CpModel()
    solver.parameters.num_workers = 1
    if hasattr(model.proto, "parse_text_format"):
        model.proto.parse_text_format(path.read_text(encoding="utf-8"))
    else:  # OR-Tools before 9.15
        pytest.importorskip("google.protobuf.text_format").Parse(path.read_text(encoding="utf-8"), model.proto)
    assert solver.solve(model) == cp_model.OPTIMAL
    data = in_ticks(scheduled)
    formulation = ChunkOrder(data.jobs, horizon=-(-scheduled.makespan // data.tick)).solve(BUDGET, silent)
    assert (formulation.status, solver.objective_value) == ("optimal", formulation.bound)


def test_the_binary_form_is_a_protocol_buffer_with_the_schedule_as_hint(tmp_path):
    pytest.importorskip("google.protobuf")
    protocol = pytest.importorskip("ortools.sat.cp_model_pb2")
    (path,) = export(schedule(), "model:form=binary", tmp_path)
    model = protocol.CpModelProto.FromString(path.read_bytes())
    assert model.name == "chunk order"
    assert len(model.solution_hint.vars) == len(model.variables)


def imported(path):
    """A linear programme that a solver can take, from a file."""
    model = model_builder.Model()
    if path.suffix == ".mps":
        assert model.import_from_mps_string(path.read_text(encoding="utf-8"))
        return model
    rows, bounds = re.split("^Subject to$|^Bounds$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    bounds, _, binaries = bounds.partition("Binaries\n")
    variables = {
        name: model.new_int_var(int(low), int(high), name)
        for low, name, high in re.findall(r"(\d+) <= (\S+) <= (\d+)", bounds)
    }
    assert set(binaries.split()) - {"Generals", "End"} == set(variables)
    for row in re.findall(r"^ \S+: (.*)$", rows, flags=re.MULTILINE):
        left, _, right = row.partition(">=")
        terms = re.findall(r"([+-]\d+) (\S+)", left)
        model.add(sum(int(factor) * variables[name] for factor, name in terms) >= int(right))
    model.minimize(variables["makespan"])
    return model


@pytest.mark.parametrize("form", ["lp", "mps"])
def test_the_optimum_of_the_linear_programme_is_that_of_chunks_in_turn(tmp_path, form):
    """No other turn on the slowest dimension is shorter than that of the fixed order."""
    scheduled = schedule(policy="baseline+fifo")
    (path,) = export(scheduled, f"model:form={form}", tmp_path)
    model, solver = imported(path), model_builder.Solver("sat")
    assert solver.solve(model) == model_builder.SolveStatus.OPTIMAL
    tick = in_ticks(scheduled, LINEAR_RESOLUTION).tick
    assert solver.objective_value == pytest.approx(scheduled.makespan / tick, rel=1e-4)


def test_the_check_finds_the_schedule_in_its_model(tmp_path):
    scheduled = schedule(chunks=8)
    export(scheduled, "model", tmp_path)
    assert "the schedule is feasible for the model" in " ".join(make_exporter("model").check(scheduled, tmp_path))
    (tmp_path / "model.pbtxt").write_text("name: 'other'", encoding="utf-8")
    with pytest.raises(InvalidSchedule, match="differs from that of the schedule"):
        list(make_exporter("model").check(scheduled, tmp_path))


def test_a_training_iteration_has_no_model(tmp_path):
    instance = load("v100-256.resnet-50").replace(chunks=1)
    scheduled = schedule_of(instance, "fused/baseline+fifo")
    with pytest.raises(InputError, match="schedules without compute"):
        export(scheduled, "model", tmp_path)


def test_models_that_no_solver_reads_are_refused(tmp_path):
    with pytest.raises(InputError, match="use fewer chunks"):
        export(schedule(chunks=10_000), "model", tmp_path)


def test_pairs_of_stages_on_a_machine_are_counted():
    """Four chunks on two dimensions, each of which serves a stage of both phases of every one."""
    data = in_ticks(schedule(chunks=4))
    paths = [[times.paths for times in plans] for plans in job_plans(data, schedule(chunks=4))]
    assert num_order_variables(data.jobs, paths) == 2 * (8 * 7 // 2)
