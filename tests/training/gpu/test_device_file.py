"""Devices as TOML files: they round-trip, and faults are told in one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_file import (
    EfficiencyTable,
    device_from_toml,
    device_to_toml,
    load_device,
    save_device,
)
from wavefabric.training.gpu.device_model import (
    ARITHMETIC,
    DEVICES,
    EFFICIENCY,
    EIGHT_BIT,
    MATRIX_OPERATORS,
    DeviceModel,
    MeasuredTime,
)
from wavefabric.training.models.graph import OPERATORS

GOOD = """name = "mine"
memory = "80 GiB"
bandwidth = "2 TB/s"
launch = "5 us"
[peak]
fp32 = "19.5 TFLOP/s"
tf32 = "156e3 GFLOP/s"
bf16 = "0.312 PFLOP/s"
"""
ROW = """[[measured]]
operator = "matmul"
arithmetic = "bf16"
flops = 8_000_000_000
bytes = 1.3e7
time = "52 us"
"""

FRACTIONS = st.floats(0.001, 1)


@st.composite
def rows(draw):
    operator = draw(st.sampled_from(OPERATORS))
    arithmetic = draw(st.sampled_from(ARITHMETIC if operator in MATRIX_OPERATORS else ("fp32",)))
    amounts = draw(st.tuples(st.floats(0, 1e18), st.floats(1, 1e12)))
    return MeasuredTime(operator, arithmetic, *amounts, draw(st.floats(1e-9, 1e3)))


@st.composite
def devices(draw):
    rates = {key: draw(st.floats(1, 1e16)) for key in ARITHMETIC}
    measured = draw(st.lists(rows(), max_size=4, unique_by=lambda row: (row.flops, row.bytes)))
    return DeviceModel(
        draw(st.text(st.characters(categories=("L", "P", "Zs")), min_size=1).filter(str.isprintable)),
        rates,
        draw(st.floats(1, 1e15)),
        draw(st.floats(1, 1e14)),
        draw(st.floats(0, 1)),
        {name: (draw(FRACTIONS), draw(FRACTIONS)) for name in OPERATORS},
        draw(st.floats(0, 1e12)),
        tuple(measured),
        draw(st.text(st.characters(exclude_categories=("Cs",)))),
    )


@settings(max_examples=30)
@given(devices() | st.sampled_from([*DEVICES.values()]))
def test_text_makes_an_equal_device(device):
    assert device_from_toml(device_to_toml(device)) == device


def test_presets_by_name_and_files_by_path(tmp_path, monkeypatch):
    assert load_device("h200") is DEVICES["h200"]
    path = save_device(tmp_path / "mine.toml", DEVICES["v100"])
    assert load_device(path) == load_device(str(path)) == DEVICES["v100"]
    with pytest.raises(InputError, match=r"mine.toml exists; allowed: another name, or --force"):
        save_device(path, DEVICES["a100"])
    assert save_device(path, DEVICES["a100"], force=True) == path
    monkeypatch.chdir(tmp_path)
    assert load_device("mine.toml") == DEVICES["a100"]


def test_a_file_may_give_the_efficiency_of_each_operator():
    assert tuple(EfficiencyTable.model_fields) == (*OPERATORS, *EIGHT_BIT)


def test_what_a_file_says():
    device = device_from_toml(GOOD + "[efficiency]\nmatmul = [0.5, 1]\n" + ROW)
    assert device.peak == pytest.approx({"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12}, rel=1e-15)
    assert (device.memory, device.bandwidth, device.launch) == (80 * 2**30, 2e12, 5 * 1e-6)
    assert device.efficiency == EFFICIENCY | {"matmul": (0.5, 1)}
    assert device.measured == (MeasuredTime("matmul", "bf16", 8e9, 1.3e7, 52 * 1e-6),)


def test_formats_of_eight_bits_are_optional():
    text = GOOD + 'fp8 = "1 PFLOP/s"\n'
    assert device_from_toml(text).peak["fp8"] == 1e15
    plain, faster = device_from_toml(text), device_from_toml(text + "[efficiency]\nfp8 = [0.25, 1]\n")
    assert plain.roofline("matmul", 3e18, 1, "fp8") == pytest.approx(3e18 / (0.75 * 1e15) + 5e-6)
    assert faster.roofline("matmul", 3e18, 1, "fp8") == pytest.approx(3e18 / (0.25 * 1e15) + 5e-6)
    with pytest.raises(InputError, match=r"^precision: mxfp8 given; allowed: fp32, tf32, bf16, fp8 on mine$"):
        plain.check_arithmetic("precision", "mxfp8")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "name: missing; allowed: a value for it (and 4 more)"),
        ("x", "device: not TOML"),
        (
            GOOD.replace("80 GiB", "80 GB/s"),
            'memory: "80 GB/s" has the unit "GB/s"; allowed: a number',
        ),
        (GOOD.replace("19.5 TFLOP/s", "19.5 TB/s"), 'peak.fp32: "19.5 TB/s" has the unit "TB/s"'),
        (GOOD.replace('"5 us"', "5"), 'launch: 5 given; allowed: text with a unit, such as "1 s"'),
        (GOOD.replace("0.312 PFLOP/s", "0 FLOP/s"), 'peak.bf16: "0 FLOP/s" given; allowed: from 1 FLOP/s'),
        (GOOD.replace("tf32", "tf33"), "peak.tf33: unknown key (did you mean tf32?)"),
        (GOOD + "[efficiency]\nmatmull = [1, 1]", "efficiency.matmull: unknown key (did you mean matmul?)"),
        (GOOD + "[efficiency]\nmatmul = [1, 2]", "efficiency.matmul[1]: 2 given; allowed: up to 1"),
        (GOOD + "[efficiency]\nmatmul = [1]", "efficiency.matmul[1]: missing; allowed: a value for it"),
        (GOOD + ROW.replace("1.3e7", "-1"), "measured[0].bytes: -1 given; allowed: from 0"),
        (GOOD + ROW.replace('"52 us"', '"0 s"'), "measured[0].seconds: 0.0 given; allowed: a number above 0"),
        (
            GOOD + ROW.replace("bf16", "fp4"),
            'measured[0].arithmetic: "fp4" given (did you mean fp8?); allowed: fp32, tf32',
        ),
        (GOOD + ROW + ROW, "measured[1]: given twice; allowed: each flops and bytes once"),
    ],
)
def test_faults_in_one_line(text, error, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_device(path)
    assert str(caught.value).startswith(f"{path}: {error}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a101", "", "nowhere.toml"])
def test_devices_that_are_not_there(name):
    with pytest.raises(
        InputError, match=r"^device: .*; allowed: (a TOML file, a100|a file that can be read)"
    ):
        load_device(name)
