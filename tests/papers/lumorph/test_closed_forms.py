"""All-reduces in closed form: the LUMORPH paper's figures, and what schedules cost."""

from dataclasses import replace

import numpy as np
import pytest

from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB, PAPER, PRINTED, SWITCH
from papers.lumorph.data import lightpath, points, switch
from papers.lumorph.schedule_cost import affine
from wavefabric.base.errors import InputError

MILLION = 1e6


@pytest.mark.parametrize("ranks", [64, 128, 256])
@pytest.mark.parametrize("series", PRINTED)
def test_figure_7(ranks, series):
    drawn = points(f"fig7-{ranks}")[series]
    assert len(drawn) == 9
    x, y = np.array(drawn).T
    assert abs(1e6 * PRINTED[series](ranks, x * MIB) - y).max() < 0.2  # µs


def test_figure_7_needs_the_reconfiguration():
    """The same points are missed by far if circuits cost nothing to set up."""
    x, y = np.array(points("fig7-256")["Lumorph-2"]).T
    assert abs(1e6 * forms.lumorph2(256, x * MIB, replace(PAPER, reconfiguration=0.0)) - y).min() > 50


@pytest.mark.parametrize("series", ["Ring", "Lumorph-2", "Lumorph-4"])
def test_figure_8a(series):
    for nanoseconds, seen in points("fig8a")[series]:
        numbers = replace(PAPER, reconfiguration=nanoseconds * 1e-9)
        assert 1e6 * PRINTED[series](256, forms.BUFFER_8A, numbers) == pytest.approx(seen, rel=0.01)


@pytest.mark.parametrize("mib", [8, 16, 32, 64, 128])
def test_figure_8b(mib):
    drawn = points("fig8b")[f"{mib}MB"]
    assert len(drawn) == 5
    for gib, seen in drawn:
        numbers = replace(PAPER, bandwidth=16 * gib * 2**30)
        assert 1e6 * forms.lumorph2(256, mib * MIB, numbers) == pytest.approx(seen, rel=0.01)


# --- schedules --------------------------------------------------------------------------------------------


def seconds(result, nbytes):
    return result["latency"] + result["per_byte"] * nbytes


def test_ring_on_the_switch_is_what_it_costs():
    result = affine("ring", switch(24))
    assert result["rounds"] == 46
    assert seconds(result, MILLION) == pytest.approx(forms.ring(24, MILLION), rel=1e-9)


@pytest.mark.parametrize(("ranks", "radix"), [(16, 2), (64, 4), (32, 4), (128, 4), (64, 8), (64, 16)])
def test_recursive_on_the_switch(ranks, radix):
    """Least transfer whatever the radix: a switch divides bandwidth at will."""
    result = affine("recursive", switch(ranks), radix=radix)
    assert seconds(result, MILLION) == pytest.approx(forms.recursive(ranks, MILLION, SWITCH, radix), rel=1e-9)
    assert result["per_byte"] == pytest.approx(2 * (ranks - 1) / ranks / PAPER.bandwidth, rel=1e-9)


@pytest.mark.parametrize(("ranks", "radix"), [(16, 2), (64, 4), (32, 4), (64, 8), (64, 16), (128, 4)])
def test_recursive_over_circuits(ranks, radix):
    result = affine("recursive", lightpath(ranks), radix=radix)
    assert seconds(result, MILLION) == pytest.approx(forms.recursive(ranks, MILLION, PAPER, radix), rel=1e-9)


@pytest.mark.parametrize(("printed", "radix"), [(forms.lumorph2, 2), (forms.lumorph4, 4)])
def test_as_printed_is_what_circuits_cost_when_lasers_are_shared_as_in_the_paper(printed, radix):
    result = affine("recursive", lightpath(64), sharing="paper", radix=radix)
    assert seconds(result, MILLION) == pytest.approx(printed(64, MILLION), rel=1e-9)


def test_radix_4_at_128_is_cheaper_than_printed():
    """The farthest round has one peer and all lasers: it is the dearest, and is not slowed down by 4/3."""
    result = affine("recursive", lightpath(128), sharing="paper", radix=4)
    assert result["latency"] == pytest.approx(forms.lumorph4(128, 0.0), rel=1e-9)
    assert seconds(result, 64 * MIB) < 0.9 * forms.lumorph4(128, 64 * MIB)


@pytest.mark.parametrize(("ranks", "radix"), [(16, 2), (64, 4)])
def test_whole_arrays(ranks, radix):
    for fabric, numbers in ((switch(ranks), SWITCH), (lightpath(ranks), PAPER)):
        result = affine("recursive-exchange", fabric, radix=radix)
        expected = forms.recursive_exchange(ranks, MILLION, numbers, radix)
        assert seconds(result, MILLION) == pytest.approx(expected, rel=1e-9)


def test_five_lasers_a_peer_are_16_over_15():
    least = 2 * 255 / 256 * MILLION / PAPER.bandwidth
    without = forms.recursive(256, MILLION, PAPER, 4) - forms.recursive(256, 0.0, PAPER, 4)
    assert without == pytest.approx(16 / 15 * least, rel=1e-9)


# --- pieces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [15, 63])
@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_full_tree(ranks, pieces):
    result = affine("tree", switch(ranks), pieces=pieces)
    assert seconds(result, MILLION) == pytest.approx(
        forms.pipelined_tree(ranks, MILLION, pieces=pieces), rel=1e-9
    )


@pytest.mark.parametrize("ranks", [12, 16, 64])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_other_trees_need_a_little_less(ranks, pieces):
    result = affine("tree", switch(ranks), pieces=pieces)
    formula = forms.pipelined_tree(ranks, MILLION, pieces=pieces)
    assert (
        formula - 2.01 * MILLION / pieces / PAPER.bandwidth < seconds(result, MILLION) < formula * (1 + 1e-9)
    )


@pytest.mark.parametrize("ranks", [8, 16, 64])
@pytest.mark.parametrize("pieces", [1, 2, 8])
def test_double_tree(ranks, pieces):
    result = affine("double-tree", switch(ranks), pieces=pieces)
    assert seconds(result, MILLION) == pytest.approx(
        forms.double_tree(ranks, MILLION, pieces=pieces), rel=1e-9
    )
    depth = ranks.bit_length() - 1
    assert result["rounds"] <= 4 * depth + 2 * (pieces - 1)


@pytest.mark.parametrize("name", ["tree", "double-tree"])
@pytest.mark.parametrize("nbytes", [1e5, 1e7])
def test_no_other_number_of_pieces_is_better_as_a_schedule(name, nbytes):
    best = forms.best_pieces(name, 15, nbytes)
    times = {
        p: seconds(affine(name, switch(15), pieces=p), nbytes) for p in {1, best, 2 * best, 1 + best // 2}
    }
    assert times[best] == min(times.values())
    assert times[best] < 0.99 * times[1] or best == 1


def test_the_best_number_of_pieces_is_the_best():
    for nbytes in (1e3, 1e5, 1e7):
        best = forms.best_pieces("double-tree", 256, nbytes)
        times = [forms.double_tree(256, nbytes, pieces=p) for p in range(1, best + 20)]
        assert np.argmin(times) + 1 == best
        assert forms.double_tree(256, nbytes) == pytest.approx(min(times), rel=1e-12)


def test_arrays_of_sizes():
    sizes = np.array([1e4, 1e6])
    for time in (*PRINTED.values(), forms.recursive, forms.pipelined_tree, forms.double_tree):
        assert np.allclose(time(64, sizes), [time(64, 1e4), time(64, 1e6)], rtol=1e-12)


def test_what_is_refused():
    with pytest.raises(InputError, match=r"ranks: 14 given; allowed: .* radix, 4"):
        forms.recursive(14, 1.0, PAPER, 4)
    with pytest.raises(InputError, match=r"radix: 31 peers in a round; allowed: .* lasers, 16"):
        forms.recursive(32, 1.0, PAPER, 32)
