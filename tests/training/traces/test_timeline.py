"""Pictures of iterations: what they show is right, and they are files of their kind."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.simulate import simulate_tasks
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.traces.timeline import (
    CALLS,
    COMPUTE,
    EXPOSED,
    draw_timeline,
    exposed_times,
    timeline_figure,
)


class Fixed:
    """A second for each call."""

    concurrent = True

    def seconds(self, calls):
        return 1.0


def data_parallel(layers=3):
    """Layers of 2 s forward and 3 s backward; gradients of each; an update of 1 s at the end."""
    graph = TaskGraph(1, program=[[]])
    for number in range(layers):
        graph.program[0].append(graph.compute("forward", f"layer {number}", 0, 2.0, [], 0))
    for number in reversed(range(layers)):
        graph.program[0].append(graph.compute("backward", f"layer {number}", 0, 3.0, [], 0))
        call = Call("all-reduce", ((0, 1),), 8.0, "gradients")
        last = graph.communicate(f"gradients {number}", call, (0,), graph.program[0][-1:], -1)
    graph.program[0].append(graph.compute("update", "all", 0, 1.0, [last], -1))
    return simulate_tasks(graph, Fixed())


def stages(count=8, parts=16):
    """Microbatches through a pipeline, forward alone."""
    graph = TaskGraph(count, program=[[] for _ in range(count)])
    for part in range(parts):
        waits = []
        for stage in range(count):
            graph.program[stage].append(graph.compute("forward", f"stage {stage}", stage, 4.0, waits, part))
            if stage + 1 < count:
                call = Call(
                    "messages", ((stage, stage + 1),), 8.0, "layer-to-layer", ((stage, stage + 1, 1.0),)
                )
                waits = [graph.communicate("on", call, (stage, stage + 1), graph.program[stage][-1:], part)]
    return simulate_tasks(graph, Fixed())


def drawn(figure, gid):
    """Bars of a track as (left, right, colour), of all tracks of that name."""
    result = []
    for each in figure.axes[0].collections:
        if each.get_gid() == gid:
            boxes = [path.get_extents() for path in each.get_paths()]
            colours = np.resize(each.get_facecolor(), (len(boxes), 4))
            result += [(box.x0, box.x1, to_hex(c)) for box, c in zip(boxes, colours, strict=True)]
    return sorted(result)


def test_bars_are_where_the_tasks_are():
    iteration = data_parallel()
    figure = timeline_figure(iteration)
    assert figure.axes[0].get_xlim() == (0, 17)
    bars = drawn(figure, "compute")
    assert [left for left, *_ in bars] == pytest.approx([0, 2, 4, 6, 9, 12, 16])
    assert [right for _, right, _ in bars] == pytest.approx([2, 4, 6, 9, 12, 15, 17], abs=0.02)
    assert [c for *_, c in bars] == [COMPUTE["forward"][0]] * 3 + [COMPUTE["backward"][0]] * 3 + [
        COMPUTE["update"][0]
    ]
    calls = drawn(figure, "gradients")
    assert [left for left, *_ in calls] == pytest.approx([9, 12, 15])
    assert {c for *_, c in calls} == {CALLS["gradients"]}


def test_what_is_exposed_is_marked():
    iteration = data_parallel()
    assert exposed_times(iteration, 0).tolist() == [[15, 16]]
    (bar,) = drawn(timeline_figure(iteration), "exposed")
    assert bar[:2] == pytest.approx((15, 16))
    assert not drawn(timeline_figure(simulate_tasks(iteration.graph, Quick())), "exposed")


class Quick(Fixed):
    def seconds(self, calls):
        return 0.0


def test_exposed_times_by_hand():
    iteration = stages(2, 2)
    # Stage 0 works 0 to 8 and is in calls 4 to 5 and 8 to 9; stage 1 waits for the first, then works 5 to 13.
    assert exposed_times(iteration, 0).tolist() == [[8, 9]]
    assert exposed_times(iteration, 1).tolist() == [[4, 5]]


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts] + [
        t.get_text() for t in figure.texts
    ]


def test_words_of_one_worker():
    said = words(timeline_figure(data_parallel(), title="A title"))
    for each in ("A title", "layer 0", "worker 0", "gradients", "forward", "backward", "update"):
        assert each in said
    assert "exposed: waits for a call" in said
    assert "17 s an iteration; 1 s of it (5.9%) are exposed communication; bound by" in " ".join(said)


def test_words_of_a_pipeline():
    iteration = stages()
    figure = timeline_figure(iteration)
    said = words(figure)
    assert [said.count(str(part)) for part in range(16)] == [8] * 16
    assert [said.count(f"worker {stage}") for stage in range(8)] == [1] * 8
    computing = f"{iteration.compute_seconds[0] / iteration.seconds:.0%} computing"
    assert said.count(computing) == 8
    assert "numbers: microbatches" in said
    assert {c for *_, c in drawn(figure, "compute")} == set(COMPUTE["forward"])
    assert len(drawn(figure, "compute")) == 8 * 16
    assert len(drawn(figure, "calls")) == 2 * 7 * 16


def test_thousands_of_short_tasks_become_few_bars():
    graph = TaskGraph(1, program=[list(range(5000))])
    for number in range(5000):
        graph.compute("forward" if number < 2500 else "backward", f"{number}", 0, 1e-6, [], -1)
    bars = drawn(timeline_figure(simulate_tasks(graph, Fixed())), "compute")
    assert [colour for *_, colour in bars] == [COMPUTE["forward"][0], COMPUTE["backward"][0]]
    assert np.ravel([bar[:2] for bar in bars]).tolist() == pytest.approx([0, 2.5, 2.5, 5])


def test_long_names_are_upright_and_cut():
    graph = TaskGraph(1, program=[list(range(40))])
    for number in range(40):
        graph.compute("forward", f"encoder {number} feed-forward matrix {number}", 0, 1.0, [], -1)
    figure = timeline_figure(simulate_tasks(graph, Fixed()))
    shown = [text for text in figure.axes[0].texts if text.get_rotation() == 90]
    assert len(shown) == 40
    assert all(text.get_text().startswith("…") for text in shown)
    assert shown[7].get_text().endswith("matrix 7")


@pytest.mark.parametrize(("ending", "head"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files_of_their_kind(tmp_path, ending, head):
    path = draw_timeline(tmp_path / f"x{ending}", data_parallel(), title="a $ b $ c")
    assert path.read_bytes().startswith(head)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_colours_are_in_the_picture(tmp_path):
    from PIL import Image

    path = draw_timeline(tmp_path / "x.png", data_parallel())
    with Image.open(path) as picture:
        colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in picture.convert("RGB").getcolors(1 << 20)}
    assert {
        COMPUTE["forward"][0],
        COMPUTE["backward"][0],
        COMPUTE["update"][0],
        CALLS["gradients"],
        EXPOSED,
    } <= colours


def test_bad_input(tmp_path):
    iteration = data_parallel()
    with pytest.raises(InputError, match=r"output: .* given; allowed: names that end in \.png, \.svg, \.pdf"):
        draw_timeline(tmp_path / "x.gif", iteration)
    (tmp_path / "x.png").write_text("mine")
    with pytest.raises(InputError, match="exists; allowed: another name, or --force"):
        draw_timeline(tmp_path / "x.png", iteration)
    with pytest.raises(InputError, match="tasks: none that take time"):
        draw_timeline(tmp_path / "y.png", simulate_tasks(TaskGraph(1, program=[[]]), Fixed()))
    with pytest.raises(InputError, match="workers: 65 given; allowed: 64 at most"):
        draw_timeline(tmp_path / "y.png", stages(65, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
