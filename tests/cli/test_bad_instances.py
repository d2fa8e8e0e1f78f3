"""Instance files that break a rule: one line names the file, the field and the rule; exit code 2."""

import json

import pytest
from edits import ABSENT, edited

COMMANDS = ("show", "bound", "simulate", "compare", "solve")

FIELDS = [
    # path, value, what the message must say
    ("format", ABSENT, "format: must be 'themis-opt/instance/1'"),
    ("format", "themis-opt/instance/2", "format = 'themis-opt/instance/2': must be 'themis-opt/instance/1'"),
    ("network", 5, "network = 5: "),
    ("surprise", 1, "surprise = 1: unknown field"),
    ("network.dimensions", ABSENT, "network.dimensions: required field is missing"),
    ("network.dimensions.0.surprise", 1, "network.dimensions[0].surprise = 1: unknown field"),
    ("network.dimension", [], "unknown field; did you mean 'dimensions'?"),
    ("network.dimensions.1.size", 10**300, "network.dimensions[1].size = 1000"),
    ("network.dimensions.1.bandwidth", "1e-9 B/s", "clock"),
    ("network.dimensions.1.latency", "5 parsec", "network.dimensions[1].latency = '5 parsec': unknown unit 'parsec'"),
    ("network.dimensions.1.latency", "1e20 s", "clock"),
    ("network.dimensions.1.latency", "1e29 s", "error: "),
    ("network.dimensions.1.launch_overhead", "1e29 s", "error: "),
    ("network.dimensions.1.packet", {"payload": "1e29 TB", "header": 1}, "error: "),
    ("network.dimensions.1.packet", {"payload": 1, "header": "1e29 TB"}, "error: "),
    ("collectives.0.kind", ABSENT, "collectives[0].kind: required field is missing"),
    ("collectives.0.kind", "allreduce", "did you mean 'all_reduce'?"),
    ("collectives.0.size", "1e999999999 B", "collectives[0].size = '1e999999999 B': "),
    ("collectives.0.element_bytes", 3, "element_bytes = 3"),
]


def case(path, value):
    shown = "missing" if value is ABSENT else json.dumps(value)
    return f"{path}={shown[:24]}"


@pytest.mark.parametrize(("path", "value", "said"), FIELDS, ids=[case(p, v) for p, v, _ in FIELDS])
def test_broken_field_is_named_with_value_and_rule(refuse, save, document, path, value, said):
    file = save(edited(document, path, value))
    message = refuse("show", file)
    assert message.startswith(f"error: {file}: ")
    assert said in message


def test_repeated_collective_names_are_refused(refuse, save, document):
    twice = edited(document, "collectives", document["collectives"] * 2)
    assert "collective names must differ" in refuse("show", save(twice))


def test_several_broken_fields_have_a_line_each(invoke, save, document):
    broken = edited(edited(document, "network.dimensions.0.size", 0), "network.dimensions.1.size", 0)
    lines = invoke("show", save(broken)).stderr.splitlines()
    assert [line.partition(": network")[2].partition(" ")[0] for line in lines] == [
        ".dimensions[0].size", ".dimensions[1].size"
    ]  # fmt: skip


@pytest.mark.parametrize("literal", ["-" + "9" * 5000, "9" * 4000, "1e999"], ids=lambda text: text[:3])
def test_huge_number_literal_is_refused(refuse, save, document, literal):
    file = save(json.dumps(document).replace('"chunks": 4', f'"chunks": {literal}', 1))
    assert f"{file}: " in refuse("show", file)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 5000, "a\0b", "\n"], ids=lambda name: repr(name[:8]))
def test_strange_name_is_refused(refuse, name):
    refuse("show", name)


def test_name_of_a_field_cannot_break_the_line(refuse, save, document):
    assert "unknown field" in refuse("show", save(edited(document, "first\nsecond", 1)))


@pytest.mark.parametrize("name", ["\ud800", "\x1b[31m", "two\nlines", "[/red]", "$x_{$", "ünï", "a/b"], ids=ascii)
def test_any_text_will_do_as_a_name(invoke, save, document, name):
    result = invoke("simulate", save(edited(document, "name", name)))
    assert result.exit_code in (0, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_bad_instance(refuse, save, document, command):
    file = save(edited(document, "network.dimensions.0.size", 1))
    assert f"{file}: network.dimensions[0].size = 1: " in refuse(command, file)
