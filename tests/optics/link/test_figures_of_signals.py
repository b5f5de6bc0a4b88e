"""Figures say what the result says."""

import os

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import ResultWriter, read_result
from wavefabric.optics.link.figures import constellation_figure, penalty_figure, plot_result, q_squared_figure
from wavefabric.optics.link.received_signals import mean_db, received


def test_all_figures(result_file, tmp_path):
    paths = plot_result(result_file, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["out-q2.png", "out-penalty.png", "out-constellation.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in paths)


def test_vectors_beside_the_result(result_file, tmp_path):
    plot_result(result_file, suffix="svg")
    assert sorted(os.listdir(tmp_path)) == [
        "out-constellation.svg",
        "out-penalty.svg",
        "out-q2.svg",
        "out.h5",
    ]
    assert "160 km" in (tmp_path / "out-penalty.svg").read_text()


def test_figure_4_shows_minimum_mean_and_maximum(result_file, payload):
    q = payload["received"]["span_2"]["q_squared_db"].value
    lines = {line.get_label(): line for line in q_squared_figure(read_result(result_file)).axes[0].lines}
    np.testing.assert_allclose(lines["minimum"].get_ydata(), q.min(axis=1))
    np.testing.assert_allclose(lines["maximum"].get_ydata(), q.max(axis=1))
    np.testing.assert_allclose(lines["mean"].get_ydata(), mean_db(q))


def test_figure_5_is_relative_to_back_to_back(result_file, payload):
    figure = penalty_figure(read_result(result_file))
    assert figure is not None
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    positions = payload["received"]
    wanted = mean_db(positions["span_1"]["q_squared_db"].value) - mean_db(
        positions["back_to_back"]["q_squared_db"].value
    )
    np.testing.assert_allclose(lines["80 km"].get_ydata(), wanted)
    assert "160 km" in lines


def test_groups_are_numbered_on_top(result_file):
    axes = q_squared_figure(read_result(result_file)).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3", "4", "5"]


def test_only_what_is_there_is_drawn(tmp_path, payload):
    del payload["received"]["back_to_back"], payload["fibre"]
    for position in payload["received"].values():
        del position["constellation"]
    path = ResultWriter(tmp_path / "r.h5").write(payload)
    assert [figure.name for figure in plot_result(path)] == ["r-q2.png"]
    payload["received"] = {}
    with pytest.raises(InputError, match="nothing to draw"):
        plot_result(ResultWriter(path, force=True).write(payload))


def test_one_mode_one_channel_and_lost_signals(tmp_path, payload):
    for position in payload["received"].values():
        for key in ("q_squared_db", "evm", "constellation"):
            position[key] = position[key]._replace(value=position[key].value[:1])
        position["q_squared_db"] = position["q_squared_db"]._replace(value=np.array([[-np.inf]]))
        position["constellation"] = position["constellation"]._replace(value=np.full((1, 9), np.nan + 0j))
    assert len(plot_result(ResultWriter(tmp_path / "r.h5").write(payload))) == 3


def test_distances_are_in_order(tmp_path, payload):
    last = payload["received"].pop("span_2")
    payload["received"] = {"span_10": {**last, "attrs": {"distance_m": 800e3}}, **payload["received"]}
    result = read_result(ResultWriter(tmp_path / "r.h5").write(payload))
    assert received(result) == ["back_to_back", "span_1", "span_10"]


def test_the_folder_is_a_file(result_file):
    with pytest.raises(InputError, match="cannot be used as a folder"):
        plot_result(result_file, result_file)


def test_indices_of_modes_are_subscripts(tmp_path, payload):
    """Formulae of ours are drawn as such, dollar signs of a label as they are."""
    labels = payload["fibre"]["labels"]
    payload["fibre"]["labels"] = labels._replace(value=[*labels.value[:-1], "LP02$a$"])
    figure = constellation_figure(read_result(ResultWriter(tmp_path / "out.h5").write(payload)))
    assert figure is not None
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0].startswith(r"LP$_{\mathrm{01}}$, group 1: ")
    assert titles[-1].startswith(r"LP$_{\mathrm{02}}$\$a\$, group 5: ")
