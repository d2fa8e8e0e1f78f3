"""``export``: files, notes, checks, and what it refuses."""


def test_a_schedule_is_written_and_checked(succeed, solution, tmp_path):
    printed = succeed("export", solution / "schedule.json", "--to", "msccl:dialect=rccl", "-o", tmp_path, "--check")
    assert [path.suffix for path in tmp_path.iterdir()] == [".xml"]
    assert printed.startswith("checked: ")
    assert "16 GPUs" in printed


def test_a_changed_file_does_not_pass_its_check(invoke, solution, tmp_path, monkeypatch):
    from themis_opt.formats import exports

    written = exports.export

    def broken(*arguments):
        files = written(*arguments)
        files[0].write_text(files[0].read_text().replace('type="rrc"', 'type="r"'))
        return files

    monkeypatch.setattr(exports, "export", broken)
    result = invoke("export", solution / "schedule.json", "--to", "msccl", "-o", tmp_path, "--check")
    assert result.exit_code == 2
    assert "ends with a wrong unit" in result.stderr


def test_unknown_formats_and_knobs_are_refused(refuse, solution, tmp_path):
    path = solution / "schedule.json"
    line = refuse("export", path, "--to", "mscl", "-o", tmp_path)
    assert "--to = 'mscl': unknown format; use one of astra-sim, msccl" in line
    assert "unknown knob 'dialekt'" in refuse("export", path, "--to", "msccl:dialekt=rccl", "-o", tmp_path)
    assert "knob dialect: Input should be" in refuse("export", path, "--to", "msccl:dialect=nccl", "-o", tmp_path)


def test_iterations_are_refused_where_a_format_has_collectives(refuse, trained_solution, tmp_path):
    line = refuse("export", trained_solution / "schedule.json", "--to", "msccl", "-o", tmp_path)
    assert "MSCCL runs collectives" in line


def test_a_model_for_a_solver_of_ones_own_is_written(succeed, refuse, solution, tmp_path):
    printed = succeed("export", solution / "schedule.json", "--model", "-o", tmp_path, "--check")
    assert {path.suffix for path in tmp_path.iterdir()} == {".pb", ".pbtxt", ".lp", ".mps"}
    assert "the schedule is feasible for the model" in printed
    assert "name one format" in refuse("export", solution / "schedule.json")
