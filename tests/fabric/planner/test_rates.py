"""Device files: what they say, how they scale others, and what is wrong with bad ones in one line."""

import json
from pathlib import Path

import pytest

from wavefabric.base.errors import InputError
from wavefabric.fabric.planner.rates import DEVICE_NAMES, DEVICES, FIELDS, load_rates

CPU = Path(__file__).parents[2] / "data" / "planner" / "cpu.json"
SCALED = 'name = "old"\nbased_on = "h200"\ntimes = 4.0\nmemory = "32 GB"\nsource = "a guess"\n'
CUBE = (256, 256, 256)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A device file of this text, or of the CPU's with other entries."""
    monkeypatch.chdir(tmp_path)

    def write(content, name="mine.json"):
        text = content if isinstance(content, str) else json.dumps(json.loads(CPU.read_text()) | content)
        Path(name).write_text(text)
        return name

    return write


@pytest.mark.parametrize("name", DEVICE_NAMES)
def test_devices_of_the_package(name):
    rates = load_rates(name)
    assert rates.memory()[1] > 1e9
    assert 0 < rates.kernel("y_transform", "single", "homogeneous", CUBE, 256**3) < 1e-9
    assert 0 < rates.linear("double", 1 << 21, 30) < 1
    assert 0 < rates.kerr("rk4ip_middle", "double", "dense", "split", 30) < 1e-8


def test_a_scaled_device(written):
    slow, fast = load_rates(written(SCALED, "old.toml")), load_rates("h200")
    assert (slow.label, slow.memory(), slow.source) == ("old", (32 * 10**9,) * 2, "a guess")
    assert slow.launch == fast.launch
    for calls in (
        lambda r: r.kernel("x_velocity", "single", "tissues", CUBE, 256**3),
        lambda r: r.step("double", "heterogeneous", "plain", CUBE),
        lambda r: r.kerr("rotate", "single", "factored", "one", 12),
        lambda r: r.copy(1e9),
        lambda r: r.linear("double", 1 << 20, 30) - 3 * r.launch,
        lambda r: r.pack(1e9, "points") - r.launch,
    ):
        assert calls(slow) == pytest.approx(4 * calls(fast))
    slower_launches = load_rates(written(SCALED + 'launch = "5 us"\n', "old.toml"))
    assert slower_launches.launch == pytest.approx(5e-6)
    on_cpu = load_rates(written(SCALED.replace("h200", str(CPU)), "old.toml"))
    assert (on_cpu.name, on_cpu.factor, on_cpu.block_memory) == ("cpu", 4.0, 0)


def test_a_device_with_few_times(written):
    """Kernels without times have a part of the step by the fields that they read and write."""
    few = json.loads((DEVICES / "h200.json").read_text())
    del few["kernels"]["single"]["homogeneous"]["y_transform"]
    rates, names = load_rates(written(json.dumps(few))), ("x_velocity", "y_gradient")
    fast, slow = (rates.kernel(name, "single", "homogeneous", CUBE, 256**3) for name in reversed(names))
    assert slow / fast == pytest.approx(FIELDS["x_velocity"] / FIELDS["y_gradient"])
    assert slow < rates.step("single", "homogeneous", "fused", CUBE)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "device: not JSON (Expecting property name"),
        ("a.json", "[]", "device: no JSON object given; allowed: that of wavefabric bench solver-rates"),
        ("a.json", "{}", "memory_bytes: missing; allowed: a value for it"),
        ("a.json", {"memory_bytes": -1}, "memory_bytes: -1 given; allowed: above 0"),
        ("a.json", {"launch_seconds": float("nan")}, "device: NaN; allowed: finite numbers"),
        ("a.json", {"linear": {"single": []}}, "linear.single: [] given; allowed: a list with at"),
        ("a.json", {"linear": {"single": [[0, 1]]}}, "linear.single[0][0]: 0 given; allowed: above"),
        ("a.toml", "name = 1 2", "device: not TOML"),
        ("a.toml", SCALED + "speed = 2\n", "speed: unknown key; allowed: name, source, based_on"),
        ("a.toml", SCALED.replace("4.0", "0"), "times: 0 given; allowed: above 0"),
        ("a.toml", SCALED.replace('"32 GB"', "32"), "memory: 32 given; allowed: text with a unit"),
        (
            "a.toml",
            SCALED.replace("h200", "h20"),
            'device: "h20" given (did you mean h200?); allowed: a JSON or TOML file',
        ),
        ("a.toml", SCALED.replace("h200", "a.toml"), 'based_on: "a.toml" given; allowed: a JSON file'),
    ],
)
def test_bad_files(written, content, name, message):
    with pytest.raises(InputError) as error:
        load_rates(written(content, name))
    assert str(error.value).startswith(f"{name}: {message}")


def test_what_a_file_lacks(written):
    rates = load_rates(written({"linear": {}, "kerr": {"single": {"rotate": {}}}, "steps": []}, "cpu.json"))
    with pytest.raises(InputError, match=r"^device: .* has no linear propagation in single precision$"):
        rates.linear("single", 1024, 2)
    with pytest.raises(InputError, match=r"^device: .* has no Kerr operator rotate \(dense, one\) in single"):
        rates.kerr("rotate", "single", "dense", "one", 2)
    with pytest.raises(InputError, match=r"^device: .* has no plain ultrasound step in single precision$"):
        rates.step("single", "tissues", "plain", CUBE)
