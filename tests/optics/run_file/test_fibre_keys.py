"""[fibre] as engineers write it: D and slope, lists of β, tables, A_eff, standards; and what is wrong."""

import math
import re
import tomllib

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT as C
from wavefabric.optics import at_frequency, run_link, single_mode, standard_fibre
from wavefabric.optics.fibre.chromatic import table_coefficients
from wavefabric.optics.link.build import build_fibre
from wavefabric.optics.run_file.load import load

TEXT = """
[fibre]
{fibre}
[link]
length = "80 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "{centre}"
[receiver]
osnr = "20 dB"
[solver]
step = "1 km"
[output]
figures = false
"""
TABLES = {
    "d.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1530,15.8\n1540,16.4\n1550,17\n1560,17.6\n1570,18.2\n",
    "both.csv": "wavelength_nm,dispersion_ps_per_nm_km,n_eff\n1540,16,1.444\n1560,17,1.443\n",
    "none.csv": "wavelength_nm\n1540\n1560\n",
    "one.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1550,17\n",
    "twice.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1550,17\n1550,18\n1560,18\n",
    "metres.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1.54e-6,17\n1.56e-6,18\n",
    "far.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1260,-4\n1310,0\n1360,4\n",
    "index.csv": "wavelength_nm,n_eff\n1530,1.4442\n1550,1.4440\n1570,1.4438\n",
    "word.csv": "wavelength_nm,dispersion_ps_per_nm_km\n1540,high\n1560,17\n",
    "modes.csv": "mode_group,l,m,a_eff_um2\n1,0,1,90\n",
    "groups.csv": "mode_group,dmgd_ps_per_km,dispersion_ps_per_nm_km,dispersion_slope_ps_per_nm2_km\n"
    "1,0,20,0.06\n",
    "mixed.csv": "mode_group,dmgd_ps_per_km,dispersion_ps_per_nm_km,beta2_ps2_per_km\n1,0,20,-21\n",
    "slope.csv": "mode_group,dmgd_ps_per_km,dispersion_slope_ps_per_nm2_km\n1,0,0.06\n",
    "bare.csv": "mode_group,dmgd_ps_per_km\n1,0\n",
    "kappa.csv": "0.8889\n",
}


@pytest.fixture
def written(tmp_path):
    """Write the tables and a run file with these lines of [fibre]; return its path."""
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)

    def write(fibre, centre="193.4 THz"):
        path = tmp_path / "run.toml"
        path.write_text(TEXT.format(fibre=fibre, centre=centre))
        tomllib.loads(path.read_text())
        return path

    return write


def built(path):
    notes = []
    fibre = build_fibre(load(path), notes.append)
    return fibre, notes


def same(one, two):
    np.testing.assert_allclose(one.beta, two.beta, rtol=1e-12)
    np.testing.assert_allclose(
        [one.gamma, one.alpha[0], one.a_eff[0]], [two.gamma, two.alpha[0], two.a_eff[0]]
    )


ATTENUATION = 0.23e-4 * math.log(10)
SINGLE = 'preset = "single-mode"\n'


@pytest.mark.parametrize(
    ("lines", "fibre"),
    [
        (
            'dispersion_parameter = "16.7 ps/(nm km)"\ndispersion_slope = "0.058 ps/(nm^2 km)"',
            lambda: single_mode(dispersion_parameter=16.7e-6, dispersion_slope=58.0, alpha=ATTENUATION),
        ),
        (
            'dispersion_parameter = "-1 ps/nm/km"\nwavelength = "1545 nm"\na_eff = "72 um^2"',
            lambda: single_mode(
                dispersion_parameter=-1e-6, wavelength=1545e-9, a_eff=72e-12, n2=2.6e-20, alpha=ATTENUATION
            ),
        ),
        (
            'betas = ["-21.7 ps^2/km", "0.13 ps^3/km", "0 ps^4/km", "1e-6 ps^5/km"]\na_eff = "80 um^2"\n'
            'n2 = "2.3e-20 m^2/W"',
            lambda: single_mode(
                betas=[-21.7e-27, 0.13e-39, 0, 1e-69], a_eff=80e-12, n2=2.3e-20, alpha=ATTENUATION
            ),
        ),
        (
            'a_eff = "70 um^2"\ngamma = "1.2 1/(W km)"',
            lambda: single_mode(gamma=1.2e-3, a_eff=70e-12, alpha=ATTENUATION),
        ),
    ],
    ids=["D and slope", "D elsewhere", "betas", "area and gamma"],
)  # fmt: skip
def test_the_run_file_says_what_python_says(written, lines, fibre):
    same(built(written(SINGLE + lines))[0], at_frequency(fibre(), "193.4 THz"))


@pytest.mark.parametrize("name", ["G.652", "G.652-1310", "G.654.E", "G.655", "DCF"])
def test_standard_fibres_by_name(written, name):
    centre = "228.5 THz" if name == "G.652-1310" else "193.4 THz"
    same(built(written(f'preset = "{name}"', centre))[0], at_frequency(standard_fibre(name), centre))
    changed = built(
        written(f'preset = "{name}"\nattenuation = "0.3 dB/km"\ndispersion_slope = "0.07 ps/nm^2/km"', centre)
    )
    other = standard_fibre(name, alpha="0.3 dB/km", dispersion_slope=70.0)
    same(changed[0], at_frequency(other, centre))


@pytest.mark.slow
def test_om4_is_solved_at_the_channels(written):
    fibre, _ = built(written('preset = "OM4"\ngroups = 2', "352 THz"))
    assert fibre.modes == 3
    assert fibre.wavelength == pytest.approx(C / 352e12)
    assert fibre.alpha[0] == pytest.approx(2.5e-4 * math.log(10))
    infrared, _ = built(written('preset = "OM4"\ngroups = 2\nattenuation = "0.4 dB/km"'))
    assert infrared.a_eff[0] > 1.5 * fibre.a_eff[0]  # in proportion to the wavelength: 1.82


def test_a_table_is_expanded_at_the_centre_of_the_channels(written):
    path = written(SINGLE + 'dispersion_csv = "d.csv"\nattenuation = "0.2 dB/km"')
    fibre, notes = built(path)
    assert notes == []
    np.testing.assert_array_equal(fibre.beta[0, 1:], table_coefficients(path.parent / "d.csv", C / 193.4e12))
    # D at 193.4 THz, 1550.12 nm, on the straight line of the table
    d = -2 * np.pi * C / fibre.wavelength**2 * fibre.beta[0, 1] * 1e6
    assert d == pytest.approx(17 + 0.06 * (C / 193.4e12 * 1e9 - 1550), abs=1e-4)
    assert path.parent / "d.csv" in load(path).input_paths()
    # β and γ: the same link as in Python, whose receiver undoes all orders of the dispersion
    result = run_link(path, output=path.parent / "r.h5")
    assert result.path.is_file()


def test_channels_beyond_a_table_are_warned_of(written):
    path = written(SINGLE + 'dispersion_csv = "d.csv"')
    text = (
        path.read_text()
        .replace("channels = 1\n", 'channels = 3\nspacing = "3 THz"\n')
        .replace("= 4", "= 256")
    )
    path.write_text(text)
    _, notes = built(path)
    assert len(notes) == 1
    assert "the table reaches from 1530 to 1570 nm, the channels from 1526.44 to 1574.54 nm" in notes[0]


def test_tables_of_modes_may_give_d_and_slope(written):
    fibre, _ = built(
        written(
            'modes_csv = "modes.csv"\ngroups_csv = "groups.csv"\nkappa_csv = "kappa.csv"', f"{C / 1550e-9} Hz"
        )
    )
    wanted = single_mode(dispersion_parameter=20e-6, dispersion_slope=60.0)
    np.testing.assert_allclose(fibre.beta, wanted.beta, rtol=1e-9)


#: Lines of [fibre], of a single mode if there is no other source; and below it how the message starts.
WRONG = """
beta2 = "-21 ps^2/km" | dispersion_parameter = "17 ps/nm/km"
    fibre.dispersion_parameter: given together with beta2; allowed: beta2 (with beta3), betas,
beta3 = "0.1 ps^3/km" | dispersion_csv = "d.csv"
    fibre.dispersion_csv: given together with beta3
betas = ["-21 ps^2/km"] | beta2 = "-21 ps^2/km"
    fibre.betas: given together with beta2
betas = ["-21 ps^2/km"] | dispersion_slope = "0.06 ps/nm^2/km"
    fibre.dispersion_slope: given together with betas
dispersion_slope = "0.06 ps/nm^2/km"
    fibre.dispersion_parameter: missing; dispersion_slope needs it
dispersion_parameter = 17
    fibre.dispersion_parameter: 17 has no unit; give text with a unit such as ps/nm/km
dispersion_parameter = "17"
    fibre.dispersion_parameter: "17" has no unit
dispersion_parameter = "17 ps/km"
    fibre.dispersion_parameter: "17 ps/km" has the unit "ps/km"; allowed: a number with a unit such as
dispersion_parameter = ["17 ps/nm/km"]
    fibre.dispersion_parameter: one value is allowed, a list of 1 was given
dispersion_parameter = "17 s/m^2"
    fibre.dispersion_parameter: "17 s/m^2" given; allowed: up to 1 s/m^2
dispersion = "17 ps/nm/km"
    fibre.dispersion: "17 ps/nm/km" given; allowed: "paper" or "solver"
betas = "-21 ps^2/km"
    fibre.betas: "-21 ps^2/km" given; allowed: a list of β2 … β15
betas = []
    fibre.betas: [] given; allowed: a list of β2
betas = ["-21 ps^2/km", "0.1 ps^2/km"]
    fibre.betas: "0.1 ps^2/km" has the unit "ps^2/km"; allowed: a number with a unit such as ps^3/km
betas = MANY
    fibre.betas: ["0 s^2/m", "0 s^2/m", "0 s^2/m"
n2 = "2.6e-20 m^2/W"
    fibre.n2: has no effect with preset = "single-mode"; remove it
a_eff = "80 um^2" | n2 = "2.6e-20 m^2/W" | gamma = "1.3 1/W/km"
    fibre.n2: has no effect
a_eff = "80 um"
    fibre.a_eff: "80 um" has the unit "um"; allowed: a number with a unit such as um^2
a_eff = "-80 um^2"
    fibre.a_eff: "-80 um^2" given; allowed: from 1e-18 m^2
dispersion_csv = "no.csv"
    fibre.dispersion_csv: "no.csv" does not exist
dispersion_csv = "both.csv"
    {folder}/both.csv: needs wavelength_nm and either dispersion_ps_per_nm_km or n_eff
dispersion_csv = "none.csv"
    {folder}/none.csv: needs wavelength_nm and either
dispersion_csv = "one.csv"
    {folder}/one.csv: wavelength_nm: 1 from 1550 to 1550; needs 2 or more different
dispersion_csv = "twice.csv"
    {folder}/twice.csv: wavelength_nm: 3 from 1550 to 1560; needs 2 or more different
dispersion_csv = "metres.csv"
    {folder}/metres.csv: wavelength_nm: 2 from 1.54e-06 to 1.56e-06; needs
dispersion_csv = "far.csv"
    {folder}/far.csv: wavelength_nm: the table reaches from 1260 to 1360 nm; β is needed at 1550.12 nm
dispersion_csv = "index.csv"
    {folder}/index.csv: wavelength_nm: 3 from 1530 to 1570; needs 5 or more
dispersion_csv = "word.csv"
    {folder}/word.csv: row 1, dispersion_ps_per_nm_km: 'high'; a finite number is needed
preset = "G652"
    fibre.preset: "G652" given; allowed: "graded-index-62.5", "single-mode", "G.652", "G.65
preset = "G.652" | coupling = "modes"
    fibre.coupling: has no effect with preset = "G.652"; remove it
preset = "G.652" | wavelength = "1540 nm"
    fibre.wavelength: has no effect
preset = "G.652" | groups = 2
    fibre.groups: 2 given, G.652 has groups 1 to 1
preset = "G.652-1310"
    fibre.preset: 1.31e-06 m is 228.8 THz, allowed: within 5 % of the channels
preset = "OM4"
    fibre.preset: 8.5e-07 m is 352.7 THz, allowed: within 5 % of the channels at 193.4 THz, or with fibre.atte
preset = "OM4" | dispersion_parameter = "17 ps/nm/km"
    fibre.dispersion_parameter: has no effect
preset = "OM3" | dispersion = "paper"
    fibre.dispersion: has no effect with
preset = "graded-index-62.5" | a_eff = "80 um^2"
    fibre.a_eff: has no effect
modes_csv = "modes.csv" | groups_csv = "mixed.csv" | kappa_csv = "kappa.csv"
    {folder}/mixed.csv: columns mode_group, dmgd_ps_per_km, dispersion_ps_per_nm_km, beta2_ps2_per_km; needs
modes_csv = "modes.csv" | groups_csv = "slope.csv" | kappa_csv = "kappa.csv"
    {folder}/slope.csv: columns mode_group, dmgd_ps_per_km, dispersion_slope_ps_per_nm2_km; needs
modes_csv = "modes.csv" | groups_csv = "bare.csv" | kappa_csv = "kappa.csv"
    {folder}/bare.csv: columns mode_group, dmgd_ps_per_km; needs beta2_ps2_per_km or dispersion_ps_per_nm_km
"""
MANY = str(["0 s^2/m"] * 15)


@pytest.mark.parametrize(("lines", "start"), re.findall(r"^(\S.*)\n +(.*)$", WRONG, re.M))
def test_wrong_fibres_have_one_line(written, lines, start):
    lines = lines.replace(" | ", "\n").replace("MANY", MANY)
    path = written(lines if lines.startswith(("preset", "modes_csv")) else SINGLE + lines)
    with pytest.raises(InputError) as error:
        built(path)
    message = str(error.value)
    assert message.startswith(start.replace("{folder}", str(path.parent)))
    assert "\n" not in message
