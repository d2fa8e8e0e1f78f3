"""``design``: what its tables say."""

import json

import pytest

from themis_opt.cli.design import _price_in_words

STAR = {
    "format": "themis-opt/design/1",
    "name": "star",
    "network": {
        "nodes": [*({"name": name} for name in "abc"), {"name": "hub", "kind": "switch"}],
        "links": [*({"ends": [name, "hub"], "group": "port"} for name in "ab"), {"ends": ["c", "hub"]}],
    },
    "workloads": [{"name": "w", "collectives": [{"kind": "all_gather", "size": "3 MB"}]}],
    "budget": {"bandwidth": "90 GB/s"},
}


def test_links_of_a_graph_are_designed(succeed, tmp_path):
    file, folder = tmp_path / "star.json", tmp_path / "star"
    file.write_text(json.dumps(STAR), encoding="utf-8")
    said = succeed("design", file, "-o", folder)
    assert said.startswith("The best bandwidths need 66.67 us; no others within the constraints need less")
    assert "star: bandwidth of each link" in said
    assert sorted(path.name for path in folder.iterdir()) == ["design.json", "network.svg", "w.json"]
    answer = json.loads((folder / "design.json").read_text(encoding="utf-8"))
    assert [row["bandwidth"] for row in answer["links"]] == pytest.approx([30e9, 30e9], rel=1e-5)
    assert succeed("bound", folder / "w.json").startswith("# star: lower bounds")


def test_options_of_dimensions_are_refused_for_graphs(refuse, tmp_path):
    file = tmp_path / "star.json"
    file.write_text(json.dumps(STAR), encoding="utf-8")
    assert "--pareto: is not for graphs" in refuse("design", file, "--pareto", 3)


@pytest.mark.parametrize(
    ("picoseconds", "text"), [(8.777e-11, "0"), (-2e-9, "0"), (0.0, "0"), (0.004, "0.004 ps"), (1.738e6, "1.738 us")]
)
def test_a_price_that_is_noise_of_a_solver_is_nothing(picoseconds: float, text: str) -> None:
    assert _price_in_words(picoseconds) == text
