"""Pictures: what they show is right, they are files of their kind, and none replaces another by accident."""

import itertools
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.units import time_words
from wavefabric.collectives import (
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
)
from wavefabric.collectives.registry import build
from wavefabric.fabric import Cost, LowerBound, RoundCost, load
from wavefabric.fabric.draw import graph, pictures, style
from wavefabric.fabric.draw.circuit_geometry import HALF, flat, scene
from wavefabric.fabric.draw.page import page
from wavefabric.fabric.draw.replay import replay
from wavefabric.fabric.draw.style import evenly
from wavefabric.fabric.draw.timeline import lanes
from wavefabric.fabric.photonic.planning import plan_circuits


@pytest.fixture(scope="module")
def small():
    """A ring on 2 x 2 tiles, its circuits, and a cost."""
    schedule = ring_all_reduce(4, 8)
    result = plan_circuits(schedule, load("lightpath:2x2"))
    rounds = tuple(RoundCost(r, 1, 2e-6, 1e-6, 0.0, 1e-6, 8.0, "tile0 sends") for r in range(6))
    cost = Cost(
        schedule.name, "lightpath:2x2", "photonic", 12e-6, rounds, LowerBound(1e-6, 1e-6, 2e-6, "why")
    )
    return schedule, result, cost


# --- What is shown ------------------------------------------------------------------------------------


def test_levels_of_a_ring_grow_to_all():
    progress = replay(ring_all_reduce(4, 8))
    assert progress.collective == "all-reduce"
    assert np.allclose(progress.levels[0], 1 / 4)  # a rank's own terms
    # After three rounds a rank has one chunk complete, and parts of 3, 2 and 1 terms.
    assert np.allclose(progress.levels[3], (1 + 3 / 4 + 2 / 4 + 1 / 4) / 4)
    assert np.allclose(progress.levels[-1], 1)
    assert (np.diff(progress.levels, axis=0) >= 0).all()
    assert progress.gathering.tolist() == [False] * 3 + [True] * 3
    assert [progress.phase(r) for r in (0, 3)] == ["adding up", "gathering sums"]


def test_levels_count_elements_and_who_is_promised_nothing():
    progress = replay(ring_all_gather([1, 3]))
    assert np.allclose(progress.levels, [[1 / 4, 3 / 4], [1, 1]])
    progress = replay(point_to_point("one", 3, [(0, 1, 5)]))
    assert np.isnan(progress.levels[:, [0, 2]]).all()
    assert progress.levels[:, 1].tolist() == [0, 1]


def test_rounds_left_out_change_nothing():
    ring = ring_all_gather([1, 1, 1])
    later = ring.transfers.copy()
    later["round"] += 2
    progress = replay(replace(ring, transfers=later))
    assert progress.levels.shape == (3, 3)
    assert all(np.allclose(progress.before(r), 1 / 3) for r in range(3))
    assert (progress.before(3) > 1 / 3).all()
    assert np.allclose(progress.levels[-1], 1)


@pytest.mark.parametrize(
    ("fabric", "ranks"), [("lightpath:2x3", 6), ("lightpath:4x4", 16), ("lightpath:8x8", 64)]
)
def test_no_two_lights_of_a_round_coincide(fabric, ranks):
    position = load(fabric)
    schedule = build("direct" if ranks < 16 else "recursive", "all-gather", ranks, ranks)
    shown = scene(schedule, plan_circuits(schedule, position))
    for now in shown.frames:
        # Straight pieces, as (axis, place across, from, to).
        pieces = []
        for circuit in now.circuits:
            for strand in circuit.strands:
                for p, q in zip(strand.points[1:-2], strand.points[2:-1], strict=True):
                    for axis in (0, 1):
                        if abs(p[1 - axis] - q[1 - axis]) < 1e-9:
                            ends = sorted((p[axis], q[axis]))
                            pieces.append((axis, round(p[1 - axis], 6), *ends))
        assert pieces
        pieces.sort()
        for one, other in pairwise(pieces):
            if one[:2] == other[:2]:
                assert other[2] >= one[3] - 1e-6, (one, other)


def test_lines_begin_and_end_at_their_tiles_and_cross_none(small):
    schedule, result, cost = small
    shown = scene(schedule, result, cost)
    for now in shown.frames:
        assert len(now.circuits) == 4
        for circuit in now.circuits:
            for strand in circuit.strands:
                for tile, end in ((circuit.src, 0), (circuit.dst, -1)):
                    assert np.abs(strand.points[end] - shown.tiles[tile]).max() == pytest.approx(HALF)
                inside = np.abs(flat(strand.points)[1:-1, None] - shown.tiles[None]).max(axis=-1)
                assert (inside > HALF - 1e-9).all()


def test_shares_are_of_the_whole_array():
    # Scratch is longer than the array here: each of three others sends all of its own to be added.
    schedule = build("direct", "all-reduce", 4, 8)
    shown = scene(schedule, plan_circuits(schedule, load("lightpath:2x2")))
    for now in shown.frames:
        assert all(c.words.endswith(", 100 % of the array") for c in now.circuits), now.circuits[0].words


def test_times_and_titles(small):
    schedule, result, cost = small
    shown = scene(schedule, result, cost)
    assert [f.title for f in shown.frames[:2]] == ["round 1 of 6", "round 2 of 6"]
    assert [f.begin for f in shown.frames] == pytest.approx([2e-6 * k for k in range(6)])
    assert shown.frames[-1].end == pytest.approx(12e-6)
    assert "12 µs" in shown.subtitle
    assert np.isnan(scene(schedule, result).frames[0].begin)
    assert np.allclose(shown.frames[-1].after, 1)
    for one, other in pairwise(shown.frames):
        assert np.allclose(one.after, other.before)


def test_parts_of_a_round_share_its_time_and_its_levels():
    position = replace(load("lightpath:2x3"), lasers=2, waveguides=1, fibres=1)
    schedule = build("direct", "all-gather", 6, 6)
    result = plan_circuits(schedule, position)
    parts = len(result.rounds)
    assert parts > 1
    cost = Cost(
        "s", "f", "photonic", 1.0, (RoundCost(0, parts, 1.0, 0, 0, 1.0, 1, ""),), LowerBound(0, 0, 0, "")
    )
    shown = scene(schedule, result, cost)
    assert shown.frames[0].title == f"round 1 of 1, part 1 of {parts}"
    assert [f.end for f in shown.frames] == pytest.approx([(k + 1) / parts for k in range(parts)])
    assert np.allclose(shown.frames[0].before, 1 / 6)
    assert np.allclose(shown.frames[-1].after, 1)


def test_tiles_left_over_are_drawn_empty():
    schedule = ring_all_gather([1, 1, 1])
    position = load("lightpath:2x2")
    shown = scene(schedule, plan_circuits(schedule, position))
    assert np.isnan(shown.frames[0].after[3])
    assert shown.tiles.shape == (4, 2)


@given(st.integers(1, 300), st.integers(1, 40))
@settings(max_examples=40)
def test_rounds_are_chosen_evenly(count, most):
    result = evenly(count, most)
    assert len(result) == min(count, most)
    assert result[0] == 0
    assert most == 1 or result[-1] == count - 1
    assert len(result) < 3 or np.ptp(np.diff(result)) <= 1


def test_words_of_times():
    assert [time_words(t) for t in (2.5, 1e-3, 3.14159e-6, 7e-7)] == ["2.5 s", "1 ms", "3.14 µs", "700 ns"]
    long = [time_words(t) for t in (59.9, 2620, 7200, 2e5, 0.9996, 999.7e-6)]
    assert long == ["59.9 s", "43.7 min", "2 h", "2.31 d", "1 s", "1 ms"]


def test_colours_tell_all_from_nearly_all():
    assert style.level_colour(1.0) != style.level_colour(0.999)
    assert len({style.wavelength_colour(k / 15) for k in range(16)}) == 16
    for fraction in (-1, 0, 0.3, 1, 2):
        assert re.fullmatch("#[0-9a-f]{6}", style.wavelength_colour(fraction))


@pytest.mark.parametrize(
    "name", ["ring:8", "mesh:4x4", "torus:3x5", "hypercube:3", "hypercube:4", "hypercube:5", "dgx-1", "dgx-2",
             "pny-p40", "p2.8xlarge", "switch:64", "torus:2x2", "mesh:1x4"],
)  # fmt: skip
def test_nodes_lie_apart(name):
    fabric = load(name)
    position = graph.positions(fabric)
    assert set(position) == {*fabric.gpus, *fabric.switches}
    at = np.array([position[n] for n in (*fabric.gpus, *fabric.switches)])
    apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1)) + 9 * np.eye(len(at))
    assert apart.min() > 0.54  # two halves of a node


def test_grids_are_drawn_as_grids():
    position = graph.positions(load("torus:3x5"))
    assert position["GPU7"].tolist() == [2, 1]
    # A hypercube of four dimensions: neighbours in a row or a column, ends joined around.
    position = graph.positions(load("hypercube:4"))
    for rank in range(16):
        for bit in range(4):
            step = np.abs(position[f"GPU{rank}"] - position[f"GPU{rank ^ 1 << bit}"])
            assert sorted(step.tolist()) in ([0, 1], [0, 3])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=20))
@settings(max_examples=40)
def test_bars_of_a_lane_do_not_overlap(bars):
    sources = np.array([b[0] for b in bars])
    times = np.array([(b[1], b[1] + b[2]) for b in bars], float)
    for source in np.unique(sources):
        own = times[sources == source]
        lane = lanes(*own.T, touch=0.05)
        assert set(lane) == set(range(max(lane) + 1))
        for i, j in itertools.combinations(range(len(own)), 2):
            if lane[i] == lane[j]:
                shared = min(own[i, 1], own[j, 1]) - max(own[i, 0], own[j, 0])
                assert shared <= 0.05 * 9


def test_loads_of_links_by_hand():
    # Around a ring of 4 every link carries three of four chunks, one way.
    fabric = load("ring:4")
    result = pictures.link_loads(ring_all_gather([10] * 4), fabric, 1.0, 1.0)
    assert sorted(np.round(result * fabric.links[0].bandwidth, 9)) == [0] * 4 + [30] * 4


# --- Files --------------------------------------------------------------------------------------------


def test_a_page_needs_nothing_from_elsewhere(small, tmp_path):
    schedule, result, cost = small
    path = pictures.draw_circuits(schedule, result, tmp_path / "x.html", cost)
    text = path.read_text("utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|src=|href=", text.replace("// ", ""))
    for word in ('type="range"', "Pause", "<svg", schedule.name):
        assert word in text
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])
    assert len(data["frames"]) == 6
    assert len(data["tiles"]) == 4
    assert data["frames"][0]["before"] == [0.25] * 4
    assert data["frames"][1]["before"] is None  # what round 0 ends with
    used = {s[0] for each in data["sets"] for c in each for s in c[3]}
    assert used == set(range(len(data["paths"])))
    # The ring's circuits are the same in every round: their lines are there once.
    assert {f["circuits"] for f in data["frames"]} == {0}
    assert len(data["paths"]) == 4 * len(data["sets"][0][0][3])


def test_a_page_survives_odd_names(small):
    schedule, result, cost = small
    odd = replace(schedule, name="</script><b>&\"'")
    text = page(scene(odd, result, cost))
    assert "</script><b>" not in text
    assert text.count("</script>") == 2


@pytest.mark.slow
def test_an_animation_moves_and_rests(small, tmp_path):
    from PIL import Image

    schedule, result, cost = small
    progress = []

    class Progress:
        def start(self, total, label):
            progress.append(total)

        def update(self, done, message=""):
            progress.append(done)

        def finish(self):
            pass

    path = pictures.draw_circuits(schedule, result, tmp_path / "x.gif", cost, most=2, progress=Progress())
    with Image.open(path) as picture:
        assert picture.n_frames == progress[0] == progress[-1] > 4
        assert picture.info["loop"] == 0
        seen, lasting = set(), []
        for k in range(picture.n_frames):
            picture.seek(k)
            lasting.append(picture.info["duration"])
            seen.add(picture.convert("RGB").tobytes())
    assert len(seen) > picture.n_frames // 2
    assert max(lasting) == lasting[-1] > 1000


@pytest.mark.parametrize("ending", [".png", pytest.param(".svg", marks=pytest.mark.slow), ".pdf"])
def test_pictures_that_stand_still(small, tmp_path, ending):
    schedule, result, cost = small
    path = pictures.draw_circuits(schedule, result, tmp_path / f"x{ending}", cost, most=3)
    head = path.read_bytes()[:200]
    assert {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}[ending] in head or ending == ".svg"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
def test_an_electrical_fabric_with_loads_and_transfers(tmp_path):
    from PIL import Image

    ring = ring_all_reduce(8, 64)
    times = np.stack([ring.transfers["round"], ring.transfers["round"] + 1.0], axis=1) * 1e-6
    cost = Cost(
        ring.name, "dgx-1", "flow", 14e-6, (), LowerBound(0, 1e-6, 1e-6, "why"), times, "link GPU0 -> GPU1"
    )
    path = pictures.draw_flow(ring, load("dgx-1"), 1e3, tmp_path / "x.png", cost)
    with Image.open(path) as picture:
        colours = picture.convert("RGB").getcolors(1 << 20)
        assert len(colours) > 500
    for name in ("dgx-1", "lightpath:2x3"):
        assert pictures.draw_fabric(load(name), tmp_path / f"{name[:3]}.png").stat().st_size > 5000


def test_existing_files_stay(small, tmp_path):
    schedule, result, cost = small
    there = tmp_path / "there.png"
    there.write_text("mine")
    with pytest.raises(InputError, match=r"output: .*there\.png exists; allowed: another name, or --force"):
        pictures.draw_circuits(schedule, result, there, cost)
    with pytest.raises(InputError, match="exists"):
        pictures.draw_fabric(load("ring:4"), there)
    assert there.read_text() == "mine"
    pictures.draw_circuits(schedule, result, there, cost, most=1, force=True)
    assert there.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.bmp", "names that end in"), ("x", "names that end in"), ("no/x.png", "cannot be written")],
)
def test_names_that_cannot_be(small, tmp_path, name, words):
    schedule, result, cost = small
    with pytest.raises(InputError, match=words) as refused:
        pictures.draw_circuits(schedule, result, tmp_path / name, cost, most=1)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_electrical_fabrics_do_not_move(tmp_path):
    ring = ring_all_gather([1] * 4)
    with pytest.raises(InputError, match=r"allowed for electrical fabrics: names that end in \.png"):
        pictures.draw_flow(ring, load("ring:4"), 1.0, tmp_path / "x.gif")


def test_nothing_to_draw(tmp_path):
    still = point_to_point("still", 4, [(0, 0, 1)])
    position = load("lightpath:2x2")
    with pytest.raises(InputError, match="sends nothing"):
        pictures.draw_circuits(still, plan_circuits(still, position), tmp_path / "x.png")
    with pytest.raises(InputError, match="sends nothing"):
        pictures.draw_flow(still, load("ring:4"), 1.0, tmp_path / "x.png")
