"""Figures of a sweep say what its result says."""

import os

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import ResultWriter
from wavefabric.optics.sweeps.figures import SweepFigure, draw_sweep, plot_sweep
from wavefabric.optics.sweeps.result import read_sweep

AXES = ("signal.launch_power", "solver.step", "seed")
SIGNALS = ("position", "mode", "channel")


@pytest.fixture
def q():
    """Q² in dB of 4 powers, 3 steps, 2 seeds, 3 positions, 3 modes, 2 channels."""
    return 15 + np.random.default_rng(1).normal(size=(4, 3, 2, 3, 3, 2))


@pytest.fixture
def payload(q):
    distance = np.broadcast_to(np.array([0, 80e3, 160e3]), (4, 3, 2, 3))
    return {
        "signal.launch_power": (np.array([2.0, -2.0, 0.0, 4.0]), "dBm", "", AXES[:1]),
        "solver.step": (np.array([50.0, 100.0, 200.0]), "m", "", AXES[1:2]),
        "seed": (np.array([1, 2]), "", "", AXES[2:]),
        "position": (["back_to_back", "span_1", "span_2"], "", "", SIGNALS[:1]),
        "mode": (np.arange(3), "", "", SIGNALS[1:2]),
        "channel": (np.arange(2), "", "", SIGNALS[2:]),
        "q_squared_db": (q, "dB", "Q squared", (*AXES, *SIGNALS)),
        "ber_from_q": (10 ** (-q / 5), "", "bit error ratio", (*AXES, *SIGNALS)),
        "distance": (distance, "m", "from the transmitter", (*AXES, "position")),
        "steps": (np.arange(24.0).reshape(4, 3, 2), "", "steps", AXES),
    }


@pytest.fixture
def make(tmp_path):
    def write(payload):
        names = {"axes": " ".join(AXES)}
        return read_sweep(ResultWriter(tmp_path / "out.h5", force=True).write(payload, attributes=names))

    return write


def lines(figure):
    """Drawn lines: (x, y, style) of those that have data."""
    drawn = [
        line for line in figure.axes[0].lines if len(line.get_xdata()) > 2 or line.get_marker() != "None"
    ]
    return [line for line in drawn if len(line.get_xdata())]


def linear_mean(values, axis):
    return 10 * np.log10((10 ** (values / 10)).mean(axis))


def test_q_over_the_first_axis_in_its_order(make, payload, q):
    figure = draw_sweep(make(payload), SweepFigure())
    drawn = lines(figure)
    assert len(drawn) == 3  # a line a step; seeds are in the mean
    order = [1, 2, 0, 3]
    for step, line in enumerate(drawn):
        far = q[:, step, :, 2]
        np.testing.assert_allclose(line.get_xdata(), [-2, 0, 2, 4])
        np.testing.assert_allclose(line.get_ydata(), linear_mean(far, (1, 2, 3))[order])
        band = figure.axes[0].collections[step].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose([band.min(), band.max()], [far.min(), far.max()])
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("signal.launch_power (dBm)", "Q² (dB)")
    assert (
        axes.get_title("left")
        == "Mean and range of 3 modes, 2 channels, 2 seeds at the farthest receiver position"
    )
    assert [text.get_text() for text in axes.get_legend().texts] == ["step 50 m", "step 100 m", "step 200 m"]


def test_one_signal_over_a_geometric_axis(make, payload, q):
    figure = draw_sweep(make(payload), SweepFigure(over="solver.step", mode=2, channel=1))
    drawn = lines(figure)
    assert len(drawn) == 4
    for power, line in enumerate(drawn):
        np.testing.assert_allclose(line.get_ydata(), linear_mean(q[power, :, :, 2, 1, 0], 1))
    axes = figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["50", "100", "200"]
    assert (
        axes.get_title("left")
        == "Mean and range of mode 2, channel 1, 2 seeds at the farthest receiver position"
    )


def test_seeds_may_be_the_abscissa(make, payload, q):
    drawn = lines(draw_sweep(make(payload), SweepFigure(over="seed")))
    assert len(drawn) == 12
    np.testing.assert_allclose(drawn[5].get_ydata(), linear_mean(q[1, 2, :, 2], (1, 2)))


def test_penalty_over_distance(make, payload, q):
    drawn = lines(draw_sweep(make(payload), SweepFigure("penalty_db", "distance")))
    assert len(drawn) == 12
    for number, line in enumerate(drawn):
        penalty = (q[:, :, :, 1:] - q[:, :, :, :1])[divmod(number, 3)]
        np.testing.assert_allclose(line.get_xdata(), [80, 160])
        np.testing.assert_allclose(line.get_ydata(), penalty.mean((0, 2, 3)))


@pytest.mark.slow
def test_no_penalty_without_noise(make, payload, q, tmp_path):
    assert [path.name for path in plot_sweep(make(payload))] == [
        "out-q-squared-db-over-launch-power.png", "out-penalty-db-over-distance.png",
    ]  # fmt: skip
    q[..., 0, :, :] = 280
    assert [path.name for path in plot_sweep(make(payload), tmp_path / "new", "svg")] == [
        "out-q-squared-db-over-launch-power.svg"
    ]
    assert os.listdir(tmp_path / "new") == ["out-q-squared-db-over-launch-power.svg"]


def test_a_point_whose_link_is_shorter_or_lost(make, payload, q):
    distance = payload["distance"][0].copy()
    distance[0, :, :, 2] = np.nan  # the first power: one span
    q[0, :, :, 2], q[3] = np.nan, np.nan  # the last: lost
    payload["distance"] = (distance, *payload["distance"][1:])
    result = make(payload)
    (line, *_) = lines(draw_sweep(result, SweepFigure()))
    np.testing.assert_allclose(line.get_xdata(), [-2, 0, 2])
    np.testing.assert_allclose(line.get_ydata()[2], linear_mean(q[0, 0, :, 1], None))
    assert result.best()[0] != 3
    assert np.isnan(result.mean_q_squared_db()[3]).all()


def test_theory_is_a_dashed_line_beside(make, payload, q):
    theory = {"span_2": {"q_squared_db": (np.full((4, 3, 2), 14.5), "dB", "expected", AXES)}}
    drawn = lines(draw_sweep(make(payload | {"theory": theory}), SweepFigure()))
    dashed = [line for line in drawn if line.get_linestyle() == "--"]
    assert len(dashed) == 3
    assert [line.get_color() for line in dashed] == [line.get_color() for line in drawn[::2]]
    for line in dashed:
        np.testing.assert_allclose(line.get_ydata(), 14.5)
    signals = np.broadcast_to(np.array([14.0, 15.0, 16.0])[:, None], (4, 3, 2, 3, 2))
    theory["span_2"]["q_squared_db"] = (signals, "dB", "expected", (*AXES, "mode", "channel"))
    drawn = lines(draw_sweep(make(payload | {"theory": theory}), SweepFigure(mode=3)))
    np.testing.assert_allclose([line.get_ydata() for line in drawn if line.get_linestyle() == "--"], 16)
    drawn = lines(draw_sweep(make(payload | {"theory": theory}), SweepFigure("ber_from_q")))
    assert not [line for line in drawn if line.get_linestyle() == "--"]


def test_other_quantities(make, payload):
    figure = draw_sweep(make(payload), SweepFigure("ber_from_q"))
    assert figure.axes[0].get_yscale() == "log"
    drawn = lines(draw_sweep(make(payload), SweepFigure("steps", "solver.step")))
    np.testing.assert_allclose(drawn[0].get_ydata(), np.arange(24).reshape(4, 3, 2)[0].mean(-1))


def test_words_as_abscissa(make, payload):
    payload["solver.step"] = (["a$b", "c", "d"], "", "", ("solver.step",))
    axes = draw_sweep(make(payload), SweepFigure(over="solver.step")).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [r"a\$b", "c", "d"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            SweepFigure(over="step"),
            "--over: step given; allowed: signal.launch_power, solver.step, seed, distance",
        ),
        (SweepFigure(mode=4), "--mode: 4 given; allowed: 1 to 3"),
        (SweepFigure(channel=0), "--channel: 0 given; allowed: 1 to 2"),
        (SweepFigure("steps", mode=1, channel=2), "--channel: 2 given; allowed: 1 to 1 for steps"),
        (SweepFigure("q"), "no quantity q by axes; allowed: q_squared_db, "),
        (SweepFigure("mode"), "no quantity mode by axes"),
    ],
)
def test_what_is_not_there(make, payload, wanted, words):
    with pytest.raises(InputError) as error:
        plot_sweep(make(payload), figure=wanted)
    assert words in str(error.value) or (
        words.startswith("no quantity q ") and "no quantity q by axes" in str(error.value)
    )


def test_a_file_whose_axes_are_gone(make, payload):
    del payload["seed"], payload["q_squared_db"], payload["ber_from_q"], payload["distance"], payload["steps"]
    with pytest.raises(InputError, match="holds no axes of a sweep"):
        make(payload)
