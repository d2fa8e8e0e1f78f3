"""Files that would take much memory or time: refused in one line before they do."""

import gzip
import json
import random

import pytest
from fuzzing import attempt, damaged
from pydantic import ValidationError
from reader_samples import SAMPLES

from themis_opt.base import documents
from themis_opt.base.errors import InputError
from themis_opt.formats import chakra
from themis_opt.formats.readers import kineto
from themis_opt.formats.readers.registry import READERS
from themis_opt.schedules.schedule_file import PeriodDocument, ScheduleDocument
from themis_opt.workloads.models import find_model

LINES = {
    "nccl-tests": "all_reduce.txt.gz",
    "nccl-inspector": "log.gz",
    "nvidia-smi": "topology.txt.gz",
    "pytorch-shapes": "shapes.txt.gz",
    "fjsp": "shop.fjs.gz",
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    ("lines", "more", "rule"),
    [(2**23, b"1", "must be at most 32768 KiB, unpacked"), (500_001, b"", "must have at most 500000 lines")],
)
def test_long_files_of_lines_are_refused(tmp_path, name, lines, more, rule):
    message = attempt(name, tmp_path / LINES[name], gzip.compress(b"1 1\n" * lines + more, 1))
    assert message == f"{tmp_path / LINES[name]}: {rule}"


def test_traces_of_many_nodes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(chakra, "MAX_NODES", 100)
    message = attempt("chakra", tmp_path / "zeros.0.et.gz", gzip.compress(bytes(102), 1))
    assert message.endswith("zeros.0.et.gz: must have at most 100 nodes")


def test_long_traces_are_refused(tmp_path):
    message = attempt("chakra", tmp_path / "zeros.0.et.gz", gzip.compress(bytes(2**25 + 1), 1))
    assert message.endswith("zeros.0.et.gz: must be at most 32768 KiB, unpacked")


def test_documents_of_many_values_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_VALUES", 100)
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"values": [[]] * 50}))
    with pytest.raises(InputError, match=r"many.json: JSON = 101: must hold at most 100 values"):
        documents.read_json(path)


def test_objects_of_many_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_KEYS", 100)
    path = tmp_path / "many.json"
    path.write_text(json.dumps(dict.fromkeys(map(str, range(101)), 1)))
    with pytest.raises(InputError, match=r"many.json: must hold at most 100 names in one object"):
        documents.read_json(path)


WRONG = ["wrong"] * 1000


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        (ScheduleDocument, "start_ps", WRONG),
        (ScheduleDocument, "collectives", WRONG),
        (ScheduleDocument, "sequences", {"node": WRONG}),
        (PeriodDocument, "launches", WRONG),
        (PeriodDocument, "keys", WRONG),
        (PeriodDocument, "sequences", [WRONG]),
        (PeriodDocument, "task_start_ps", [WRONG]),
        (PeriodDocument, "stage_start_ps", [WRONG]),
    ],
)
def test_long_lists_of_wrong_items_are_few_errors(document, field, value):
    with pytest.raises(ValidationError) as refusal:
        document.model_validate({field: value})
    assert 0 < sum(error["loc"][0] == field for error in refusal.value.errors()) < 5


def test_traces_of_many_events_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kineto, "MAX_TRACE_EVENTS", 50_000)
    content = gzip.compress(b'{"traceEvents": [1' + b",1" * 50_000 + b"]}", 1)
    assert "must have at most 50000 events" in attempt("pytorch-trace", tmp_path / "trace.json.gz", content)


def test_traces_of_many_values_are_refused(tmp_path):
    content = gzip.compress(b'{"traceEvents": [1' + b",1" * kineto.MAX_TRACE_VALUES + b"]}", 1)
    assert "must hold at most 50000000 values" in attempt("pytorch-trace", tmp_path / "trace.json.gz", content)


def test_an_event_of_a_trace_may_not_fill_the_memory(tmp_path):
    content = b'{"traceEvents": [{"a": [1' + b",1" * 5_000_000 + b"]}]}"
    assert "an event of more than 8388608 characters" in attempt("pytorch-trace", tmp_path / "trace.json", content)


@pytest.mark.parametrize(
    ("kind", "field"), [("llama", "num_hidden_layers"), ("bert", "num_hidden_layers"), ("gpt2", "n_layer")]
)
def test_models_of_many_layers_are_refused(tmp_path, kind, field):
    numbers = ["hidden_size", "num_attention_heads", "vocab_size", "intermediate_size", "n_embd", "n_positions"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind} | dict.fromkeys(numbers, 64) | {field: 2_000_000}))
    with pytest.raises(InputError, match=f"{field} = 2000000: must be a whole number from 1 to 10000"):
        find_model(str(path))


TRIALS = 30


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [name for name in READERS if SAMPLES.get(name)])
def test_damaged_files_are_read_or_refused(name, tmp_path):
    generator = random.Random(name)
    for _ in range(TRIALS):
        file, content = damaged(name, generator)
        message = attempt(name, tmp_path / file, content)
        assert "\n" not in message


def test_every_format_has_samples():
    assert SAMPLES.keys() >= set(READERS)
