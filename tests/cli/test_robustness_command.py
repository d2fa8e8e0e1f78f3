"""``robustness``: a schedule's plan and Themis in disturbed networks."""

import json

import pytest

NAME = "fig5.all_reduce.256MB"
FEW = ("--samples", 5)
POLICIES = ["plan, enforced", "plan, dynamic", "themis+scf, enforced", "themis+scf, dynamic"]
NS_PER_MS = 10**6


@pytest.fixture(scope="module")
def schedule(succeed, tmp_path_factory):
    """The fixed order on figure 5, which takes 8 ms; nothing can take less than 20/3 ms."""
    folder = tmp_path_factory.mktemp("simulate")
    succeed("simulate", NAME, "--policies", "baseline", "-o", folder)
    return folder / "baseline" / "schedule.json"


def test_the_table_has_one_line_per_policy(succeed, schedule):
    verdict, title, header, *rows = succeed("robustness", schedule, *FEW).splitlines()
    ways = [policy.replace(", ", " (") + ")" for policy in POLICIES]
    assert all(way in verdict for way in ways)
    assert any(verdict.endswith(f": prefer {way}.") for way in ways)
    assert title.startswith("# fig5")
    assert "5 samples" in title
    assert header.split("\t")[0] == "policy"
    assert [row.split("\t")[0] for row in rows] == POLICIES
    assert {len(line.split("\t")) for line in (header, *rows)} == {9}


def test_json_says_how_the_network_was_disturbed(succeed, schedule):
    options = ("--seed", 7, "--bandwidth", 0.2, "--jitter", 3, "--compute-jitter", 0.5)
    report = json.loads(succeed("robustness", schedule, *FEW, *options, "--json"))
    report.pop("policies")
    expected = {"samples": 5, "seed": 7, "bandwidth_spread": 0.2, "latency_jitter": 3.0, "compute_jitter": 0.5}
    assert report == expected


def test_nominal_makespans_are_nanoseconds_and_losses_fractions(succeed, schedule):
    rows = {row["policy"]: row for row in json.loads(succeed("robustness", schedule, *FEW, "--json"))["policies"]}
    nominal = {name: (row["nominal_makespan_ns"], row["nominal_loss"]) for name, row in rows.items()}
    assert nominal["plan, enforced"] == pytest.approx((8 * NS_PER_MS, 0.2))
    assert nominal["themis+scf, enforced"] == pytest.approx((7 * NS_PER_MS, 0.05))


def test_an_iteration_is_compared_with_themis_on_the_usual_launches(succeed, tmp_path):
    succeed("simulate", "v100-256.resnet-50", "--policies", "ddp/hourglass", "-o", tmp_path)
    (written,) = tmp_path.glob("**/schedule.json")
    options = (*FEW, "--compute-jitter", 0.5)
    assert "compute up to +50 %" in succeed("robustness", written, *options)
    rows = json.loads(succeed("robustness", written, *options, "--json"))["policies"]
    assert [row["policy"] for row in rows] == [name.replace("themis", "fused/themis") for name in POLICIES]
    assert rows[0]["nominal_makespan_ns"] == pytest.approx(22.9e6, rel=1e-2)
    assert all(row["mean_slowdown"] > 0 for row in rows)


@pytest.mark.parametrize(("suffix", "begins"), [(".svg", b"<svg"), (".png", b"\x89PNG")])
def test_picture_is_written(succeed, schedule, tmp_path, suffix, begins):
    path = tmp_path / f"losses{suffix}"
    succeed("robustness", schedule, *FEW, "-o", path)
    assert path.read_bytes().startswith(begins)


def test_a_tolerance_is_compared_with_waiting_for_all(succeed, tmp_path):
    """Of an iteration whose tensors may lose a tenth of their bytes."""
    made = tmp_path / "made.json"
    options = ("--dtype", "fp32", "--batch", 1, "--tolerance", 0.1, "--granularity", "fused", "--chunks", 10)
    succeed("workload", "vgg-16-cifar", "--network", NAME, *options, "-o", made)
    succeed("simulate", made, "--policies", "fused/baseline", "-o", tmp_path)
    path = next(tmp_path.glob("*/schedule.json"))
    report = json.loads(succeed("robustness", path, *FEW, "--chunk-delay", "exponential:1ms", "--json"))
    assert report["chunk_delay"] == "exponential:1ms"
    assert [row["way"] for row in report["tolerance"]] == ["all waited for", "never sent", "late is lost"]
    assert "late is lost" in succeed("robustness", path, *FEW, "--chunk-delay", "exponential:1ms")
