"""Figures 3, 5 and 6 of the LUMORPH paper from routes, and the command."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from papers.lumorph import baselines, claims, figure3, figure5, figure8, routes
from papers.lumorph.data import GRIDS, compared, lightpath, points
from papers.lumorph.random_routes import Draws
from wavefabric.fabric.photonic.routing.routes import k_shortest

pytestmark = pytest.mark.slow


def test_the_data_are_all_there():
    assert {len(points(f"fig7-{n}")) for n in (64, 128, 256)} == {5}
    assert sum(len(drawn) for drawn in points("fig5R").values()) == 48
    assert points("fig3")["curve-teal"][-1] == (256, 1436.56)


@pytest.mark.parametrize("radix", [2, 4])
def test_figures_5_and_6_with_the_least_overlap(radix):
    """Equal at every point: both directions of an edge, then rounds that do not fit split."""
    for ranks, seen in points("fig5L")[f"L{radix}+MCF"]:
        result = routes.least_overlap(int(ranks), radix, routes.grid_of(int(ranks), radix))
        assert result["certified"]
        assert result["overlaps"] == result["bounds"]
        assert 2 * max(result["overlaps"]) == seen
        for waveguides in (20, 40):
            counted = 2 * sum(-(-2 * overlap // waveguides) for overlap in result["overlaps"])
            assert counted == dict(points(f"fig6W{waveguides}")[f"L{radix}+MCF"])[ranks]


def test_eight_gpus_at_radix_4_depend_on_how_the_tiles_lie():
    assert max(routes.least_overlap(8, 4, (4, 2))["overlaps"]) == 2
    assert max(routes.least_overlap(8, 4, (2, 4))["overlaps"]) == 4


def test_rounds_are_those_of_the_algorithm():
    rounds = routes.rounds_of(16, 4)
    assert [len(pairs) for pairs in rounds] == [48, 48]
    assert set(rounds[0]) == {(a, b) for a in range(16) for b in range(16) if a != b and a % 4 == b % 4}
    assert set(rounds[1]) == {(a, b) for a in range(16) for b in range(16) if a != b and a // 4 == b // 4}


# --- routes at random -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "pairs"), [(4, [(0, 1), (2, 3)]), (16, [(0, 15), (15, 0), (5, 6), (3, 12)])]
)
def test_draws_are_counted_as_the_paths_say(ranks, pairs):
    """Draws reach what choices of one path a pair reach, all if they are few, and nothing else."""
    fabric, k = lightpath(ranks), 3
    edges = [
        [[frozenset(edge) for edge in pairwise(path)] for path in k_shortest(fabric, s, d, k)]
        for s, d in pairs
    ]
    possible = set()
    for choice in np.ndindex(*(len(paths) for paths in edges)):
        counts: dict[frozenset, int] = {}
        for paths, which in zip(edges, choice, strict=True):
            for edge in paths[which]:
                counts[edge] = counts.get(edge, 0) + 1
        possible.add(max(counts.values()))
    draws, rng = Draws(fabric, pairs, k), np.random.default_rng(1)
    assert len({draws.overlap(rng) for _ in range(300)} ^ possible) <= (0 if ranks == 4 else 1)


@pytest.mark.parametrize("radix", [2, 4])
def test_the_papers_random_routes_are_within_ours(radix):
    result = routes.random_draws(64, radix, 300).max(axis=1)
    assert result.min() <= dict(points("fig5L")[f"L{radix}+Random"])[64] <= result.max()
    assert result.min() > 2 * max(routes.least_overlap(64, radix, GRIDS[64])["overlaps"])


def test_wavelengths_share_waveguides():
    """16 circuits of 5 of 16 wavelengths cross an edge: three fit into one waveguide."""
    assert routes.fewest_waveguides(256, 2) == (8, 8)
    result, bound = routes.fewest_waveguides(256, 4)
    assert bound == 5 <= result <= 6


# --- claims -----------------------------------------------------------------------------------------------


def test_claims_from_the_formulas():
    lines = {one["claim"]: one for one in claims.claims({})}
    assert lines["faster all-reduce than Ring"]["recomputed"].startswith("74.5%")
    assert lines["less time than Ring and Tree, 64 MB, 256 GPUs"]["recomputed"].startswith(
        "37% (Ring), 43% (Tree)"
    )
    assert lines["against Ring at 3.7 µs (figure 8a)"]["recomputed"] == "3.59x (Lumorph-4)"
    slow = lines["no gain over Ring at 25 µs (figure 8a)"]
    assert slow["recomputed"] == "Lumorph-2 0.89x, Lumorph-4 1.46x"
    assert slow["holds"] == "for Lumorph-2"
    lossy = lines["circuits have the same data rate, however long"]
    assert lossy["recomputed"].startswith("over 7 edges of a wafer; slowest with 256 GPUs: Lumorph-2 15,")


def test_deviation_is_the_largest():
    result = compared("7", "p", "s", "us", [(1, 10.0), (2, 20.0), (3, 0.0)], [10.5, 19.0, 0.0])
    assert (result["largest"], result["relative"]) == (1.0, 0.05)


# --- the scripts ------------------------------------------------------------------------------------------


def test_scripts(script, tmp_path):
    for module in (figure3, figure8):
        code, out, err = script(module, "-o", tmp_path / "found")
        assert (code, err) == (0, "")
        assert "paper" in out
    names = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert names == ["figure3.json", "figure3.png", "figure8.json", "figure8.png"]
    code, out, err = script(claims, "--results", tmp_path / "found", "-o", tmp_path / "found")
    assert (code, err) == (0, "")
    assert "no solver is needed" in " ".join(out.split())


def test_no_draws_are_refused(script):
    code, out, err = script(figure5, "--seeds", 0)
    assert (code, out) == (2, "")
    assert "--seeds: 0 given; allowed: at least 1" in err


def test_few_waveguides_cost_rounds(monkeypatch):
    """With fewer waveguides a schedule takes no fewer rounds, and with random routes no less time."""
    monkeypatch.setattr(baselines, "RANKS", 16)
    monkeypatch.setattr(baselines, "FEW", (1, 4))
    result = baselines._split(lambda line: None)
    for radix in (2, 4):
        mine = [one for one in result if one["radix"] == radix]
        for route in baselines.VARIANTS:
            parts = [one["parts"] for one in mine if one["way"] == route]
            assert len(parts) == 2
            assert parts == sorted(parts, reverse=True)
            assert parts[-1] >= mine[0]["rounds"]
        few = {one["way"]: one["us"] for one in mine if one["waveguides"] == 1}
        assert few["least overlap"] < few["random"]
    assert max(one["parts"] - one["rounds"] for one in result) > 0


def test_the_page_says_what_the_bench_says(monkeypatch):
    """One cell of the table of waveguides in docs/lumorph.md: 256 GPUs, radix 4, 4 waveguides."""
    monkeypatch.setattr(baselines, "FEW", (4,))
    monkeypatch.setattr(baselines, "VARIANTS", {"least overlap": ((4,), {})})
    (result,) = baselines._split(lambda line: None)
    page = (Path(__file__).parents[3] / "docs" / "lumorph.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| 4, least overlap, split"))
    assert row.split("|")[3].strip() == f"{result['parts']}, {result['us']:.1f}"
