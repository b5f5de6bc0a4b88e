"""Links with lasers and a MIMO equaliser from a run file, on one rank and on two."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.optics.link import run as links
from wavefabric.optics.link.build import build_fibre, check_start
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.link.result import group_rows
from wavefabric.optics.run_file import load
from wavefabric.optics.signal import equaliser

RUN = """\
seed = 3
[fibre]
preset = "graded-index-62.5"
groups = 3
coupling = "{coupling}"
[link]
length = "10 km"
spans = 2
mix_groups = {mix}
[signal]
symbol_rate = "32 GBaud"
symbols = 1024
samples_per_symbol = 4
launch_power = "-20 dBm"
channels = 2
spacing = "50 GHz"
centre_frequency = "193.4 THz"
{signal}
[receiver]
osnr = "22 dB"
at = "end"
{receiver}
[solver]
step = "10 km"
[output]
figures = false
"""
MIMO = 'equaliser = "mimo"\ntaps = 8\ntraining = 512\n'


def parsed(folder, receiver=MIMO, signal="", mix=True, coupling="groups"):
    path = folder / "run.toml"
    options = {"receiver": receiver, "signal": signal, "mix": str(mix).lower(), "coupling": coupling}
    path.write_text(RUN.format(**options))
    return load.load(path).with_solver(device="cpu", threads=1)


def linear(folder, name, **options):
    return read_result(
        links.run_link(parsed(folder, **options), folder / f"{name}.h5", warn=lambda _: None).path
    )


@pytest.mark.slow
def test_the_equaliser_replaces_the_known_inverse(tmp_path):
    ideal, mimo = linear(tmp_path, "ideal", receiver=""), linear(tmp_path, "mimo")
    for name in ("back_to_back", "span_2"):
        lost = ideal[f"received/{name}/q_squared_db"] - mimo[f"received/{name}/q_squared_db"]
        # 2 to 6 rows x 8 taps of 512 to 1024 symbols.
        assert 0 < lost.mean() < 0.6
        assert mimo[f"received/{name}/constellation"].shape == (6, 2, 512)
        for result in (ideal, mimo):
            np.testing.assert_allclose(result[f"received/{name}/gmi"], 2, atol=1e-4)
            np.testing.assert_allclose(result[f"received/{name}/mutual_information"], 2, atol=1e-4)
    gone = abs(mimo["received/span_2/q_squared_db"] - mimo["received/back_to_back/q_squared_db"])
    assert gone.max() < 0.6
    (first, *_), total = group_rows(mimo), mimo["received/span_2/gmi"][0].mean()
    assert first["received"]["span_2"]["gmi_mean"] == pytest.approx(total)


@pytest.mark.slow
def test_groups_whose_modes_differ_are_only_undone_by_the_equaliser(tmp_path):
    solved = {"coupling": 'modes"\ndispersion = "solver'}
    with pytest.raises(InputError, match=r'mix_groups: true given, .* or receiver.equaliser = "mimo"'):
        linear(tmp_path, "ideal", receiver="", **solved)
    mimo = linear(tmp_path, "mimo", **solved)
    for name in ("back_to_back", "span_2"):
        np.testing.assert_allclose(mimo[f"received/{name}/q_squared_db"], 17.6, atol=0.9)


COUPLED = """
[fibre.random_coupling]
correlation_length = "1 km"
pmd = "1 ps/sqrt(km)"
delay_spread = "4 ps/sqrt(km)"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("joint", "taps", "warned"), [("groups", 8, False), ("all", 40, False), ("all", 4, True)]
)
def test_random_coupling_along_the_fibre_costs_nothing(tmp_path, joint, taps, warned):
    """Delays of polarisations and modes, sections of random unitaries; "all" has the groups' delays too."""
    receiver = f'equaliser = "mimo"\njoint = "{joint}"\ntaps = {taps}\ntraining = 4096'
    parsed(tmp_path, receiver, mix=False)
    path, warnings = tmp_path / "run.toml", []
    text = (
        path.read_text()
        .replace("symbols = 1024", "symbols = 8192")
        .replace("spans = 2", "spans = 1")
        .replace("10 km", "80 km", 1)
    )
    path.write_text(text.replace("channels = 2", "channels = 1").replace("[link]", COUPLED + "[link]"))
    run = load.load(path).with_solver(device="cpu", threads=1)
    result = read_result(links.run_link(run, tmp_path / "r.h5", warn=warnings.append).path)
    penalty = result["received/span_1/q_squared_db"] - result["received/back_to_back/q_squared_db"]
    assert any("receiver.taps: modes equalised together come" in line for line in warnings) == warned
    if warned:
        assert penalty.min() < -5
    else:
        assert abs(penalty.mean()) < 0.05
        assert abs(penalty).max() < 0.2


@pytest.mark.slow
def test_lasers_from_the_run_file(tmp_path):
    """Over one phase for all they are ruinous; followed, they cost little."""
    widths = {"signal": 'linewidth = "3 MHz"'}
    lost = linear(tmp_path, "lost", receiver='linewidth = "3 MHz"\nphase_window = 0', **widths)
    for number, receiver in enumerate(
        ("phase_window = 16", 'phase = "blind-search"\nphase_window = 16', MIMO)
    ):
        kept = linear(tmp_path, f"kept-{number}", receiver=receiver + '\nlinewidth = "3 MHz"', **widths)
        assert kept["received/span_2/q_squared_db"].mean() > 15
    assert lost["received/span_2/q_squared_db"].mean() < 13


@pytest.mark.parametrize(
    ("receiver", "fault"),
    [
        ("taps = 8", r'receiver\.taps: has no effect with equaliser = "ideal"; remove it'),
        ('equaliser = "mimo"', r"receiver\.training: 4096 given; allowed: .* fewer than the 1024 symbols"),
        (
            'equaliser = "mimo"\ntaps = 8\ntraining = 150\njoint = "all"',
            r"training: 150 given; allowed: 2 x 12 rows",
        ),
        ('equaliser = "best"', r'receiver\.equaliser: "best" given; allowed: "ideal" or "mimo"'),
        ('phase = "viterbi"', r"receiver\.phase: .*allowed"),
        ('linewidth = "-1 kHz"', r"receiver\.linewidth: .* allowed: from 0 Hz"),
        ("linewidth = 1000", r"receiver\.linewidth: 1000 has no unit"),
    ],
)
def test_refusals(tmp_path, receiver, fault):
    with pytest.raises(InputError, match=fault):
        check_start(parsed(tmp_path, receiver), 1, tmp_path / "no.h5")


def test_a_known_inverse_of_random_coupling_knows_no_oscillator(tmp_path):
    path = tmp_path / "run.toml"
    parsed(tmp_path, 'linewidth = "1 kHz"')
    path.write_text(path.read_text().replace("[link]", COUPLED + "[link]"))
    with pytest.raises(InputError, match=r"receiver\.linewidth: given for a receiver that solves the link"):
        links.run_link(path, tmp_path / "no.h5")


def test_a_phase_that_does_not_suit_the_format_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"receiver\.phase: 'viterbi-viterbi' given for 16qam"):
        parsed(tmp_path, 'phase = "viterbi-viterbi"', 'modulation = "16qam"')


def test_ranks_hold_whole_groups_only_where_groups_are_equalised(tmp_path):
    fibre = build_fibre(parsed(tmp_path))
    for receiver, whole in (("", False), (MIMO, True), (MIMO + 'joint = "all"', False)):
        run = parsed(tmp_path, receiver, mix=False)
        assert (LinkPath.boundaries(run, fibre) is not None) == whole


@pytest.mark.parallel(2)
@pytest.mark.parametrize("joint", ["groups", pytest.param("all", marks=pytest.mark.slow)])
def test_ranks_equalise_as_one(comm, monkeypatch, tmp_path_factory, joint):
    """Sets of modes on one rank, or all modes on all ranks, which take the channels in turn."""
    # Last bits, which devices differ in, grow with each step of conjugate gradients.
    monkeypatch.setattr(equaliser, "_MOST_STEPS", 8)
    folder = comm.control.bcast(tmp_path_factory.mktemp("mimo") if comm.rank == 0 else None)
    receiver = MIMO + f'joint = "{joint}"\nlinewidth = "100 kHz"'
    if comm.rank == 0:
        parsed(folder, receiver, 'linewidth = "100 kHz"', mix=joint == "groups")
    comm.control.barrier()
    run = load.load(folder / "run.toml").with_solver(device="cpu", threads=1)
    links.run_link(run, folder / "ranks.h5", comm=comm, warn=lambda _: None)
    if comm.rank:
        return
    links.run_link(run, folder / "one.h5", warn=lambda _: None)
    ranks, one = read_result(folder / "ranks.h5"), read_result(folder / "one.h5")
    for key in (key for key in one if key.startswith("received")):
        np.testing.assert_allclose(ranks[key], one[key], rtol=0, atol=1e-6, err_msg=key)
