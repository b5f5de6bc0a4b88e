"""Small inputs that ask for much, never end, or speak to the terminal: one line, exit code 2, at once."""

import json
import os
import re

import pytest

from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.collectives import ring_all_gather, to_json
from wavefabric.fabric import load
from wavefabric.fabric.io.presets import PRESETS
from wavefabric.fabric.photonic.planning import plan_circuits

LIGHTPATH = (PRESETS / "lightpath.toml").read_text("utf-8")
DIGITS = "1" * 5000
HEX = "0x" + "f" * 5000
DOTS = ".".join("a" * 50_000)
NESTED = "[" * 100_000


def schedule(change) -> str:
    content = json.loads(to_json(ring_all_gather([2, 2])))
    change(content)
    return json.dumps(content)


def many_ranks(content):
    chunk = [{"at": [r, "data", 0], "item": r, "origins": [r]} for r in range(5000)]
    content.update(ranks=5000, transfers=[], pre=chunk, post=chunk)
    content["buffers"] = [{"name": "data", "sizes": [[1]] * 5000}]


def many_moves(content):
    content["buffers"] = [{"name": "data", "sizes": [[1] * 10_000] * 2}]
    row = {"round": 0, "src": [0, "data", 0], "dst": [1, "data", 0], "count": 10_000}
    content.update(transfers=[row] * 1000, pre=[], post=[])


def changed(*pairs):
    """A change of the sound run file."""

    def make(text):
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    return make


def spaced(spacing):
    return f'first_frequency = "193.4 THz"\nlast_frequency = "193.5 THz"\nspacing = "{spacing}"'


def core(diameter):
    return f'profile = {{ core_diameter = "{diameter}", numerical_aperture = 0.2 }}'


PRESET = 'preset = "graded-index-62.5"\ngroups = 2'
GRID = 'channels = 3\nspacing = "50 GHz"\ncentre_frequency = "193.4 THz"'
RUN = ("run", "run.toml")
CIRCUITS = circuits_text(plan_circuits(ring_all_gather([2, 2]), load("lightpath:1x2")))
MAKE, COST, LIGHT = ("collective", "make"), ("collective", "cost"), ("--fabric", "lightpath:1x2")
PLACED = (*RUN, "--ranks", "2", "--placement")
DRAW = ("collective", "draw", "s.json", "--fabric", "lightpath:1x2", "-o", "x.png")

# (name, files by name: text, or a change of the sound run file; the command; words that the line must hold)
BAD = [
    ("digits", {"run.toml": changed(("seed = 1", f"seed = {DIGITS}"))}, RUN, ["TOML", "digits"]),
    ("hexadecimal digits", {"run.toml": changed(("seed = 1", f"seed = {HEX}"))}, RUN, ["seed", "digits"]),
    ("dots", {"run.toml": changed(("seed = 1", f"{DOTS} = 1"))}, RUN, ["TOML", "100 parts", "line 2"]),
    ("dots of a table", {"run.toml": f"[{DOTS}]"}, RUN, ["TOML", "100 parts"]),
    ("nested", {"run.toml": f"seed = {NESTED}"}, RUN, ["TOML", "nested"]),
    ("dots of a fabric", {"f.toml": f"{DOTS} = 1"}, ("fabric", "show", "f.toml"), ["TOML", "100 parts"]),
    ("spans", {"run.toml": changed(("spans = 2", "spans = 1000000000"))}, RUN, ["link.spans", "10000"]),
    ("core of 5 mm", {"run.toml": changed((PRESET, core("5 mm")))}, RUN, ["2.57e+05 LP modes", "1024"]),
    ("core of 50 m", {"run.toml": changed((PRESET, core("50 m")))}, RUN, ["rings", "200000"]),
    ("channels", {"run.toml": changed(("channels = 3", "channels = 1000000000"), ("50 GHz", "1e-9 Hz"))}, RUN,
     ["signal.channels", "10000"]),
    ("spacing", {"run.toml": changed((GRID, spaced("1e-9 Hz")))}, RUN, ["spacing", "10000"]),
    ("spacing of nothing", {"run.toml": changed((GRID, spaced("5e-324 Hz")))}, RUN,
     ["spacing", "inf channels"]),
    ("symbol rate", {"run.toml": changed(("32 GBaud", "5e-324 Hz"))}, RUN, ["signal.symbol_rate", "1 Hz"]),
    ("processes", {}, (*RUN, "--ranks", "100000"), ["--ranks", "100000", "4096"]),
    ("processes of a machine", {}, (*RUN, "--ranks", "4096"), ["--ranks", "4096", "on this machine"]),
    ("threads", {}, (*RUN, "--threads", "1000000000"), ["solver.threads", "4096"]),
    ("pieces", {}, (*MAKE, "ring", "all-reduce", "--ranks", "8", "--pieces", "2147483648"),
     ["pieces", "32768"]),
    ("pieces, optimal", {}, (*MAKE, "optimal", "all-reduce", *LIGHT, "--pieces", "2147483648"),
     ["pieces", "2147483648", "262144"]),
    ("ranks", {}, (*MAKE, "ring", "all-reduce", "--ranks", "200000"), ["--ranks", "200000", "4096"]),
    ("ranks, greedy", {"m.json": "[]"}, (*MAKE, "greedy", "--messages", "m.json", "--ranks", "200000"),
     ["--ranks", "200000", "4096"]),
    ("ranks of messages", {"m.json": "[[0, 200000, 1]]"}, (*MAKE, "greedy", "--messages", "m.json"),
     ["--ranks", "200001", "4096"]),
    ("ranks, cost", {}, (*COST, "ring", "all-reduce", *LIGHT, "--ranks", "200000"), ["--ranks", "4096"]),
    ("name in circuits", {"c.json": CIRCUITS.replace('"lightpath:1x2"', r'"\ud800\u001b"')},
     (*COST, "ring", "all-gather", "--ranks", "2", "--circuits", "c.json"), ["c.json", "fabric.name"]),
    ("placement, JSON nested", {"p.json": NESTED}, (*PLACED, "p.json"), ["p.json", "nested"]),
    ("placement, TOML nested", {"p.toml": f"placement = {NESTED}"}, (*PLACED, "p.toml"), ["nested"]),
    ("placement, JSON digits", {"p.json": f"[{DIGITS}]"}, (*PLACED, "p.json"), ["p.json", "digits"]),
    ("placement, text digits", {"p.txt": DIGITS}, (*PLACED, "p.txt"), ["p.txt, line 1", "4095"]),
    ("placement, hexadecimal", {"p.toml": f"placement = [{HEX}]"}, (*PLACED, "p.toml"), ["entry 1", "4095"]),
    ("ranks of a schedule", {"s.json": schedule(many_ranks)}, ("collective", "verify", "s.json"), ["4096"]),
    ("moves of a schedule", {"s.json": schedule(many_moves)}, ("collective", "verify", "s.json"),
     ["transfers", "10000000", "8388608"]),
]  # fmt: skip


def assert_refused(answer, words):
    code, out, err = answer
    assert code == 2, err
    assert out == ""
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    assert len(err) < 2100
    for word in words:
        assert word in err, err


@pytest.mark.parametrize(("files", "words", "said"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_small_input_that_asks_for_much(command, run_text, tmp_path, files, words, said):
    for name, text in {"run.toml": run_text, **files}.items():
        (tmp_path / name).write_text(text(run_text) if callable(text) else text)
    before = sorted(os.listdir(tmp_path))
    assert_refused(command(*words), said)
    assert sorted(os.listdir(tmp_path)) == before


def test_schedules_with_large_numbers_are_drawn(command, tmp_path):
    """Items and rounds are numbers, not sizes."""

    def change(content):
        for held in (*content["pre"], *content["post"]):
            held["item"] = 2**63 - 1 - held["item"]
        content["transfers"][-1]["round"] = 2**31 - 1

    (tmp_path / "s.json").write_text(schedule(change))
    code, _, err = command(*DRAW)
    assert (code, err) == (0, "")
    assert (tmp_path / "x.png").stat().st_size > 1000


FORMULA = r"a $x^{$ $\bad$"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("collective", "draw", "s.json", "--fabric", "lightpath:1x2", "-o", "x.png"),
        ("collective", "draw", "s.json", "--fabric", "lightpath:1x2", "-o", "x.gif", "--rounds", "1"),
        ("collective", "draw", "s.json", "--fabric", "./f.toml", "-o", "x.png"),
        ("collective", "cost", "s.json", "--fabric", "./f.toml", "--bytes", "1M:4M", "-o", "x.png"),
        ("fabric", "show", "./f.toml", "-o", "x.png"),
        ("fabric", "routes", "./l.toml", "-o", "x.png"),
    ],
    ids=" ".join,
)
def test_names_that_look_like_formulae_are_drawn(command, tmp_path, words):
    name = FORMULA.replace("\\", "\\\\")
    (tmp_path / "s.json").write_text(schedule(lambda content: content.update(name=FORMULA)))
    link = f'[[links]]\nfrom = "{name}"\nto = "b"\nbandwidth = "1 GB/s"\nkind = "{name}"\nboth = true\n'
    electrical = f'name = "{name}"\ndescription = "{name}"\ngpus = ["{name}", "b"]\nalpha = "1 us"\n{link}'
    (tmp_path / "f.toml").write_text(electrical)
    (tmp_path / "l.toml").write_text(re.sub("(?m)^name = .*", lambda _: f'name = "{name}"', LIGHTPATH))
    code, _, err = command(*words)
    assert (code, err) == (0, "")
    assert (tmp_path / words[words.index("-o") + 1]).stat().st_size > 1000


@pytest.mark.slow
def test_a_title_is_printed_without_its_escapes(command, run_text, tmp_path):
    text = run_text.replace('"test"', r'"\u001b]0;owned\u0007 $x^{$"').replace("spans = 2", "spans = 1")
    (tmp_path / "run.toml").write_text(text.replace('"1 km"', '"40 km"'))
    code, out, _ = command("run", "run.toml")
    assert code == 0
    assert r"\x1b]0;owned\x07 $x^{$" in out
    assert "\x1b" not in out


def test_texts_of_a_fabric_are_printed_without_their_escapes(command, tmp_path):
    text = 'name = "f"\ngpus = 1\nalpha = "1 us"\ndescription = "\\u001b[31m"\nsource = "\\u001b]0;owned"\n'
    (tmp_path / "f.toml").write_text(text)
    code, out, _ = command("fabric", "show", "./f.toml")
    assert code == 0
    assert r"\x1b[31m" in out
    assert r"\x1b]0;owned" in out
    assert "\x1b" not in out


#: Commands that read a file NAME.
READERS = {
    "run": ("run", "NAME", "-o", "out.h5"),
    "run a k-Wave file": ("run", "NAME.h5", "-o", "out.h5"),
    "kwave": ("kwave", "-i", "NAME", "-o", "out.h5"),
    "plot": ("plot", "NAME"),
    "placement": ("run", "run.toml", "--ranks", "2", "--placement", "NAME"),
    "verify": ("collective", "verify", "NAME"),
    "cost": ("collective", "cost", "NAME", "--fabric", "ring:2"),
    "draw": ("collective", "draw", "NAME", "--fabric", "ring:2", "-o", "x.png"),
    "export": ("collective", "export", "NAME", "-o", "x.xml"),
    "fabric": ("collective", "cost", "ring", "all-reduce", "--fabric", "./NAME"),
    "circuits": ("collective", "draw", "ring", "all-gather", "--circuits", "NAME", "-o", "x.png"),
    "conditions": ("collective", "make", "optimal", "-f", "lightpath:1x2", "--conditions", "NAME"),
    "messages": ("collective", "make", "greedy", "--messages", "NAME"),
    "show": ("fabric", "show", "./NAME"),
    "import NCCL": ("fabric", "show", "--import-nccl", "NAME"),
    "import nvidia-smi": ("fabric", "show", "--import-smi", "NAME"),
    "pairs": ("fabric", "routes", "lightpath:2x2", "--pattern", "pairs", "--pairs", "NAME"),
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_only_regular_files_are_read(command, run_text, tmp_path, words, kind):
    (tmp_path / "run.toml").write_text(run_text)
    name = next(word for word in words if "NAME" in word).replace("NAME", "in")
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    before = sorted(os.listdir(tmp_path))
    answer = command(*(word.replace("NAME", "in") for word in words))
    assert_refused(answer, ["in", f"is a {kind}, not a regular file"])
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    "words", [READERS[k] for k in ("run", "placement", "show", "import NCCL", "messages")], ids=" ".join
)
def test_large_text_files_are_refused(command, run_text, tmp_path, words):
    (tmp_path / "run.toml").write_text(run_text)
    with open(tmp_path / "in", "wb") as file:
        file.truncate((16 << 20) + 1)
    answer = command(*(word.replace("NAME", "in") for word in words))
    assert_refused(answer, ["in", "is larger than 16 MiB"])


ESCAPE = "\x1b]0;owned\x07\x1b[31m\u202e"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'"{ESCAPE}" = 1', ("fabric", "show", "./in")),
        (f"<{ESCAPE}/>", ("fabric", "show", "--import-nccl", "in")),
        (json.dumps({ESCAPE: 1}), ("collective", "verify", "in")),
        (json.dumps({ESCAPE: 1}, ensure_ascii=False), ("collective", "make", "greedy", "--messages", "in")),
        (f"0 {ESCAPE}", ("run", "run.toml", "--ranks", "2", "--placement", "in")),
        (ESCAPE, ("collective", "verify", f"in{ESCAPE}")),
        (ESCAPE, ("run", "run.toml", f"--{ESCAPE}")),
        (ESCAPE, ("collective", "cost", "ring", "all-reduce", "--fabric", ESCAPE)),
        (ESCAPE, ("run", "run.toml", "--device", ESCAPE)),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(value[:4]).split("\x1b")[0],
)
def test_terminals_are_not_spoken_to(command, run_text, tmp_path, text, words):
    (tmp_path / "run.toml").write_text(run_text)
    (tmp_path / "in").write_text(text)
    assert_refused(command(*words), [])


LONG = "a b" * 20_000


@pytest.mark.parametrize(
    "words",
    [
        ("run", LONG),
        ("run", "run.toml", "--exchange", LONG),
        ("run", "run.toml", f"--exchange={LONG}"),
        ("collective", "make", "ring", "all-reduce", "--ranks", "4", "--grid", LONG),
        ("collective", "cost", "ring", "all-reduce", "--fabric", "ring:4", "--bytes", LONG),
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_long_values_are_cut(command, run_text, tmp_path, words):
    (tmp_path / "run.toml").write_text(run_text)
    code, _, err = command(*words)
    assert code == 2
    assert err.count("a b" * 20) <= 3
    assert len(err) < 600


def test_long_values_of_files_are_cut(command, run_text, tmp_path):
    (tmp_path / "run.toml").write_text(run_text.replace('"80 km"', f'"{"k" * 60_000}"'))
    assert_refused(command("run", "run.toml"), ["link.length", "kkk...", "km"])
    (tmp_path / "run.toml").write_text(run_text.replace("spans = 2", f"{'k' * 60_000} = 2"))
    answer = command("run", "run.toml")
    assert_refused(answer, ["link.kkk", "unknown key"])
    assert "k" * 201 not in answer[2]
