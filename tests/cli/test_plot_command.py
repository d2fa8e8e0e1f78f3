"""The command `plot`."""


def test_the_command_draws_beside_a_policy_for_a_paper(tmp_path, succeed):
    succeed("solve", "fig5.all_reduce.256MB", "--policies", "themis", "--time-limit", "1", "-o", tmp_path)
    picture = tmp_path / "picture.pdf"
    succeed("plot", tmp_path / "schedule.json", "--style", "paper", "--beside", "baseline", "-o", picture)
    assert picture.read_bytes().startswith(b"%PDF")


def test_pictures_have_the_bound_as_a_line(solution, tmp_path, succeed):
    succeed("plot", solution / "schedule.json", "-o", tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert "no schedule below 7 ms (dashed)" in drawn
    assert "no schedule below 7 ms (dashed)" in (solution / "gantt.svg").read_text(encoding="utf-8")
