"""``--solver-log``: what CP-SAT says of its models and its search."""

ARGUMENTS = ("solve", "fig5.all_reduce.256MB", "--chunks", 4, "--time-limit", 5, "--chunk-sizes", "equal")


def test_the_log_of_the_solver_is_written_and_ends_with_the_command(succeed, tmp_path):
    log = tmp_path / "cp-sat.log"
    succeed(*ARGUMENTS, "--policies", "exact:local_search=false", "-o", tmp_path / "a", "--solver-log", log)
    text = log.read_text(encoding="utf-8")
    assert "Starting CP-SAT solver" in text
    assert "CpSolverResponse summary" in text
    succeed(*ARGUMENTS, "--policies", "exact:local_search=false", "-o", tmp_path / "b")
    assert log.read_text(encoding="utf-8") == text


def test_a_log_that_cannot_be_written_is_refused(refuse, tmp_path):
    assert "--solver-log" in refuse(*ARGUMENTS, "-o", tmp_path / "a", "--solver-log", tmp_path / "none" / "log")
