"""Tables and the picture of a tuning."""

import io
from itertools import pairwise

import matplotlib.colors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

from wavefabric.collectives.tuning import Choice, TimedChoice, TunedCollective, TunedSize, Tuning
from wavefabric.fabric.execution import tune_report
from wavefabric.fabric.execution.tune import TuningSearch

RING, DIRECT, WIDE, TREE = Choice("ring"), Choice("direct"), Choice("recursive", 8), Choice("tree", None, 4)
SIZES = [1 << 12, 1 << 14, 1 << 16]


def search(*tables, ranks=8, measured=(0, 0), left_out=None, wrong=(), unavailable=None, **facts):
    tuning = Tuning(ranks, tables, **facts)
    return TuningSearch(tuning, measured, 3.0, left_out or {}, wrong, unavailable or {})


def predicted():
    """Direct, then radix 8, which is twice as fast as the ring, then a tie."""
    rows = [
        [(DIRECT, 2.0), (WIDE, 2.5), (RING, 9.0)],
        [(WIDE, 4.0), (RING, 8.0), (DIRECT, 16.0)],
        [(WIDE, 1e3), (DIRECT, 1e3), (RING, 1.2e3)],
    ]
    sizes = zip(SIZES, rows, strict=True)
    table = [TunedSize(size, tuple(TimedChoice(c, us) for c, us in row)) for size, row in sizes]
    return TunedCollective("all-reduce", tuple(table))


def measured():
    """One size: the second was not measured."""
    each = TimedChoice(TREE, 50.0, 70.0), TimedChoice(RING, 90.0)
    return TunedCollective("broadcast", (TunedSize(1 << 20, each),), "mpi")


def shown(result):
    screen = Console(width=120, file=io.StringIO())
    for each in tune_report.table(result):
        screen.print(each, soft_wrap=isinstance(each, str))
    return [" ".join(line.split()) for line in screen.file.getvalue().splitlines()]


def test_tables():
    lines = shown(search(predicted(), fabric="dgx-1", model="alpha-beta"))
    assert lines[0] == "all-reduce, 8 ranks, dgx-1"
    assert lines[2] == "size fastest predicted algbw busbw second slower by"
    assert lines[4:7] == [  # busbw: 2 · 7/8 of algbw
        "4 KiB direct 2 µs 2.05 3.58 recursive, radix 8 25 %",
        "16 KiB recursive, radix 8 4 µs 4.1 7.17 ring 2 x",
        "64 KiB recursive, radix 8 1 ms 0.0655 0.115 direct equal",
    ]
    assert lines[8:] == [
        "3 candidates; algbw, busbw of the fastest in GB/s",
        "predicted: alpha-beta model on dgx-1",
    ]


def test_measured_tables_and_notes():
    result = search(
        measured(),
        dtype="float32",
        device="a processor",
        fabric="mine",
        model="flow",
        measured=(1, 2),
        left_out={"squares": "ranks: 6"},
        wrong=("broadcast by direct: 3 elements wrong",),
        unavailable={"nccl": "no GPU"},
    )
    lines = shown(result)
    assert lines[0] == "broadcast, 8 ranks, MPI"
    assert lines[2] == "size fastest measured predicted algbw busbw second slower by"
    assert lines[4] == "1 MiB tree, 4 pieces 70 µs 50 µs 15 15 - -"  # measured, and 1 for a broadcast
    (size,) = tune_report.facts(result)["tables"][0]["sizes"]
    assert size["algbw"] == size["busbw"] == pytest.approx(2**20 / 70e-6)
    assert lines[6:] == [
        "2 candidates; algbw, busbw of the fastest in GB/s",
        "measured: float32 on a processor",
        "predicted: flow model on mine",
        "measured are 1 of 2 times: of candidates predicted within 3 times the fastest",
        "left out: squares (ranks: 6)",
        "wrong, left out: broadcast by direct: 3 elements wrong",
        "NCCL: not measured; no GPU",
    ]


@settings(max_examples=50)
@given(sizes=st.sets(st.integers(1, 1 << 40), min_size=1, max_size=6).map(sorted), data=st.data())
def test_the_strip_shows_what_is_chosen(sizes, data):
    rows = tuple(TunedSize(size, (TimedChoice(Choice("ring", None, k + 1)),)) for k, size in enumerate(sizes))
    table = TunedCollective("broadcast", rows)
    ends = tune_report._borders(sizes)
    assert ends == sorted(ends)
    assert len(ends) == len(sizes) + 1
    number = data.draw(st.integers(0, len(sizes) - 1))
    low, high = ends[number : number + 2]
    nbytes = data.draw(st.integers(int(low), int(high) + 1))
    # Whole bytes within a strip; beside a border round-off decides.
    if low * (1 + 1e-9) < nbytes < high * (1 - 1e-9):
        assert Tuning(8, (table,)).choose("broadcast", nbytes) == rows[number].best.choice


def drawn(result, monkeypatch, tmp_path):
    """The figure that is written."""
    figures = []
    monkeypatch.setattr(tune_report, "save_figure", lambda path, figure: figures.append(figure) or path)
    assert tune_report.plot(result, tmp_path / "x.png") == tmp_path / "x.png"
    FigureCanvasAgg(figures[0]).draw()
    return figures[0]


def test_the_picture_has_a_line_for_each_and_a_strip(monkeypatch, tmp_path):
    figure = drawn(search(predicted(), fabric="dgx-1", model="flow"), monkeypatch, tmp_path)
    assert isinstance(figure, Figure)
    upper, lower = figure.axes
    assert upper.get_title("left") == "all-reduce, 8 ranks, dgx-1"
    assert upper.get_ylabel() == "predicted time"
    assert [text.get_text() for text in upper.get_legend().get_texts()] == [
        "direct", "recursive, radix 8", "1 other"
    ]  # fmt: skip
    times = {line.get_label(): list(line.get_ydata()) for line in upper.lines}
    assert times["direct"] == [2.0, 16.0, 1e3]
    assert times["recursive, radix 8"] == [2.5, 4.0, 1e3]
    assert times["1 other"] == [9.0, 8.0, 1.2e3]
    colours = {line.get_label(): line.get_color() for line in upper.lines}
    strips = [(patch.get_x(), patch.get_width(), patch.get_facecolor()) for patch in lower.patches]
    assert [matplotlib.colors.to_hex(colour) for *_, colour in strips] == [
        colours["direct"].lower(), colours["recursive, radix 8"].lower()
    ]  # fmt: skip
    ends = [(x, x + width) for x, width, _ in strips]
    assert ends == [pytest.approx((1 << 11, 1 << 13)), pytest.approx((1 << 13, 1 << 17))]
    assert lower.get_xlim() == pytest.approx((1 << 11, 1 << 17))
    assert [text.get_text() for text in lower.texts] == ["direct", "recursive\nradix 8"]


def test_several_tables_share_colours_and_words_fit(monkeypatch, tmp_path):
    long = TunedSize(1 << 20, (TimedChoice(Choice("recursive-exchange", 4), 5.0),))
    tables = predicted(), measured(), TunedCollective("all-reduce", (*predicted().sizes, long), "mpi")
    figure = drawn(search(*tables, fabric="$a_b$", model="flow", dtype="int32"), monkeypatch, tmp_path)
    assert len(figure.axes) == 6
    first, _, second, _, third, strip = figure.axes
    assert first.get_title("left") == "all-reduce, 8 ranks, $a_b$"
    assert "predicted" in [text.get_text() for text in second.get_legend().get_texts()]
    same = [
        next(line.get_color() for line in axes.lines if line.get_label() == "direct")
        for axes in (first, third)
    ]
    assert same[0] == same[1]
    renderer = FigureCanvasAgg(figure).get_renderer()
    bars = [patch.get_window_extent(renderer) for patch in strip.patches]
    for text in strip.texts:
        box = text.get_window_extent(renderer)
        assert any(bar.x0 <= box.x0 and box.x1 <= bar.x1 for bar in bars), text.get_text()


def test_it_is_written(tmp_path):
    path = tune_report.plot(search(predicted(), fabric="dgx-1", model="flow"), tmp_path / "x.svg")
    text = path.read_text("utf-8")
    assert all(word in text for word in ("recursive, radix 8", "16 KiB", "fastest", "µs"))


def test_colours_differ():
    assert len(set(tune_report._PALETTE)) == len(tune_report._PALETTE) > 8
    rows = tuple(TunedSize(4**k, (TimedChoice(Choice("tree", None, k + 1), 1.0),)) for k in range(1, 11))
    colours = tune_report._colours(Tuning(8, (TunedCollective("broadcast", rows),)))
    assert all(a != b for a, b in pairwise(colours.values()))
