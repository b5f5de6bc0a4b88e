"""NCCL's tuner plugin, called as NCCL does; its table; what is measured for it."""

import ctypes as ct
import os
import re
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.cli.collective.tune import TuneOptions, TuneRankOptions
from wavefabric.cli.collective.tune import command as tune_command
from wavefabric.errors import InputError
from wavefabric.execution import nccl_tuner as module
from wavefabric.execution.nccl_tuner import COMBINATIONS, LIBRARY, TABLE, NCCLChoice, NCCLSize, NCCLTuning
from wavefabric.execution.timing import Ranks
from wavefabric.system.progress import Progress

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("objdump")), reason="needs cc")
NUMBER = {"broadcast": 0, "reduce": 1, "all-gather": 2, "reduce-scatter": 3, "all-reduce": 4, "all-to-all": 8}
#: `ncclDebugLogger_t` with the values that the plugin gives it.
VALUES = ct.c_char_p, ct.c_int, ct.c_char_p
LOGGER = ct.CFUNCTYPE(None, ct.c_int, ct.c_ulong, ct.c_char_p, ct.c_int, ct.c_char_p, *VALUES)
CONTEXT, SIZES = ct.POINTER(ct.c_void_p), (ct.c_size_t, ct.c_size_t, LOGGER)
INIT = dict.fromkeys((5, 6), ct.CFUNCTYPE(ct.c_int, CONTEXT, ct.c_uint64, *SIZES, ct.c_void_p, ct.c_void_p))
INIT[4] = ct.CFUNCTYPE(ct.c_int, *SIZES, CONTEXT)
COSTS = ct.c_void_p, ct.c_int, ct.c_int, ct.c_int, ct.POINTER(ct.c_int)
GET = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_int, ct.c_size_t, ct.c_int, *COSTS)


class NCCL:
    """A communicator as a tuner plugin sees it: costs of 7 x 3 floats, of which the least is taken."""

    def __init__(self, library, version=5, ranks=2, nodes=1):
        end = ct.CFUNCTYPE(ct.c_int, ct.c_void_p)
        fields = {"name": ct.c_char_p, "init": INIT[version], "get": GET, "end": end, "chunk": ct.c_void_p}
        plugin = type("Plugin", (ct.Structure,), {"_fields_": list(fields.items())[: max(4, version - 1)]})
        self.plugin = plugin.in_dll(ct.CDLL(str(library)), f"ncclTunerPlugin_v{version}")
        self.context, self.said = ct.c_void_p(), []
        log = LOGGER(lambda level, _, file, line, text, *values: self.said.append((level, text, values)))
        sizes, context = (ranks, nodes, log), ct.byref(self.context)
        words = (*sizes, context) if version == 4 else (context, 7, *sizes, None, None)
        assert self.plugin.init(*words) == 0

    def choose(self, operation, size, impossible=(), registered=0):
        """The choice, and whether the costs are as they were."""
        before = [-1.0 if each in impossible else 50.0 + k for k, each in enumerate(COMBINATIONS)]
        costs, channels = (ct.c_float * 21)(*before), ct.c_int(0)
        words = NUMBER[operation], size, 1, costs, 7, 3, registered, ct.byref(channels)
        assert self.plugin.get(self.context, *words) == 0
        _, best = min((cost, k) for k, cost in enumerate(costs) if cost >= 0)
        return COMBINATIONS[best]._replace(channels=channels.value), list(costs) == before


OWN = NCCLChoice("tree", "ll")  # has the least cost of all
FAST, WIDE = NCCLChoice("nvls", "simple"), NCCLChoice("ring", "ll128", 8)


def tuning(*sizes):
    return NCCLTuning(2, 1, "NCCL 2.28.3", [NCCLSize(*each[:2], 9.0, 6.0, each[2], 0) for each in sizes])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / LIBRARY
    module.build_plugin(path)
    return path


@pytest.mark.parametrize("version", [4, 5, 6])
def test_the_plugin_chooses_what_its_table_says(tmp_path, version):
    sizes = tuning(("all-reduce", 1024, WIDE), ("all-reduce", 4096, FAST), ("all-gather", 64, FAST))
    path, _ = module.write_plugin(tmp_path / "new", sizes)
    assert sorted(os.listdir(tmp_path / "new")) == [LIBRARY, TABLE]
    nccl = NCCL(path, version)
    assert nccl.choose("all-reduce", 1024) == nccl.choose("all-reduce", 2047) == (WIDE, False)
    assert nccl.choose("all-reduce", 2048) == nccl.choose("all-reduce", 4096) == (FAST, False)
    for untouched in ("all-reduce", 1023), ("all-reduce", 4097), ("broadcast", 1024), ("all-to-all", 1024):
        assert nccl.choose(*untouched) == (OWN, True)
    assert nccl.choose("all-reduce", 1024, impossible=[WIDE._replace(channels=0)]) == (OWN, True)
    assert nccl.choose("all-reduce", 1024, registered=1) == (OWN, True)
    assert nccl.plugin.end(nccl.context) == 0
    for numbers in (4, 1), (2, 2):
        other = NCCL(path, version, *numbers)
        assert (other.choose("all-reduce", 1024), other.said) == ((OWN, True), [])
    with pytest.raises(InputError, match=f"{LIBRARY} exists; allowed: another name, or --force"):
        module.write_plugin(tmp_path / "new", sizes)


def as_example_plugin(text, collective, nbytes):
    """How plugins/tuner/example/plugin.c of NCCL reads a table: the first line that matches, or None.

    Commas part 8 to 10 words, without blanks around them. -1 matches any nodes, ranks, operations in a group
    and registration; both ends of the bytes belong to the range.
    """
    for line in text.splitlines():
        assert len(line) < 255
        words = [word.strip(" \t") for word in line.split(",") if word]
        if line.startswith("#") or not 8 <= len(words) <= 10:
            continue
        least, most, channels, *wanted = map(int, (*words[1:3], *words[5:]))
        matches = all(want in (-1, fact) for want, fact in zip(wanted, (1, 2, 1, 0), strict=False))
        if words[0] == collective.replace("-", "") and least <= nbytes <= most and matches:
            return NCCLChoice(words[3], words[4], max(channels, 0))
    return None


COUNTED = st.builds(WIDE._replace, algorithm=st.sampled_from(["ring", "tree"]), channels=st.integers(1, 64))
ROWS = st.dictionaries(
    st.integers(1, 1 << 40), st.none() | st.sampled_from(COMBINATIONS) | COUNTED, min_size=1, max_size=9
)


@settings(max_examples=60, deadline=None)
@given(drawn=st.fixed_dictionaries(dict.fromkeys(("all-reduce", "broadcast"), ROWS)), data=st.data())
def test_the_nearest_size_counts(library, tmp_path_factory, drawn, data):
    text = tuning(*((name, *each) for name in drawn for each in sorted(drawn[name].items()))).to_text()
    table = tmp_path_factory.getbasetemp() / "drawn.conf"
    table.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAVEFABRIC_NCCL_TUNER_TABLE", str(table))
        nccl = NCCL(library)
    name, ends = data.draw(st.sampled_from(list(drawn.items())))
    near = st.sampled_from(list(ends)).flatmap(lambda n: st.integers(n - 1, n + 1))
    for nbytes in data.draw(st.lists(st.integers(0, 1 << 41) | near, min_size=5, max_size=30)):
        expected = None
        if min(ends) <= nbytes <= max(ends):
            below, above = max(n for n in ends if n <= nbytes), min(n for n in ends if n >= nbytes)
            expected = ends[below if nbytes * nbytes < below * above else above]
        assert nccl.choose(name, nbytes) == (expected or OWN, expected is None)
        assert as_example_plugin(text, name, nbytes) == expected
    assert nccl.plugin.end(nccl.context) == 0


ROW = "allreduce,1,8,ring,ll,-1,1,2,-1,0\n"


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        (None, 0, "cannot be read"),
        ("", 0, "is empty"),
        (ROW + ROW, 2, "do not rise"),
        (ROW.replace("1,8", "9,8"), 1, "do not rise"),
        ("# x\n" + ROW.replace("ring", "rung"), 2, "unknown"),
        (ROW.replace("-1,1,2", "65,1,2"), 1, "channels"),
        (ROW.replace("ring,ll,-1", "nvls,ll,8"), 1, "channels"),
        (ROW.replace("-1,0", "2,1"), 1, "ten columns"),
        (f"# {'x' * 300}\n", 2, "ten columns"),
        ("\x00\xff" * 99, 1, "ten columns"),
    ],
)
def test_a_bad_table_leaves_everything_to_nccl(library, tmp_path, monkeypatch, text, line, fault):
    table = tmp_path / "some.conf"
    if text is not None:
        table.write_text(text, encoding="latin-1")
    monkeypatch.setenv("WAVEFABRIC_NCCL_TUNER_TABLE", str(table))
    nccl = NCCL(library)
    ((level, form, (path, number, why)),) = nccl.said
    assert (level, form, path, number) == (2, b"wavefabric: %s, line %d: %s", bytes(table), line)
    assert fault in why.decode()
    assert nccl.choose("all-reduce", 4) == (OWN, True)
    assert nccl.plugin.end(nccl.context) == 0


def test_a_choice_calls_nothing_and_so_allocates_nothing(library):
    def leaves(function):
        words = ["objdump", "--no-show-raw-insn", f"--disassemble={function}", str(library)]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert f"<{function}>:" in text
        return re.findall(rf"\t(?:call|bl).*|\t(?:j|b)\S*\s.*<(?!{function}\+).*>", text)

    assert leaves("choose") == []
    assert any("free" in each for each in leaves("finalize"))


RING, TREE, FEW = NCCLChoice("ring", "ll"), NCCLChoice("tree", "simple"), NCCLChoice("ring", "ll", 2)


def searched(fast, usable=COMBINATIONS, stop=None):
    def timer(name, nbytes, choice):
        if nbytes == stop:
            raise KeyboardInterrupt
        possible = choice is None or choice._replace(channels=0) in usable
        return fast.get(choice, (10.0, 9.5, 10.5)) if possible else None

    return module.search(["reduce"], [64, 256], timer, Progress())


def test_only_what_is_clearly_faster_replaces_nccls_own_choice():
    for us, choice, fast in [
        (10.0, None, {RING: (9.0, 8.0, 9.6)}),  # its slowest sample is not below 9.5
        (10.0, None, {RING: (9.81, 9.0, 9.4)}),  # 1.9 %
        (9.8, RING, {RING: (9.8, 9.0, 9.4), TREE: (9.79, 9.0, 9.6)}),
        (9.0, RING, {RING: (9.0, 8.9, 9.1), FEW: (8.9, 8.8, 8.95)}),
        (8.0, FEW, {RING: (9.0, 8.9, 9.1), FEW: (8.0, 7.0, 8.5)}),
    ]:
        assert searched(fast) == [("reduce", size, 10.0, us, choice, 0) for size in (64, 256)]
    assert searched({}, [RING, TREE], 256) == [("reduce", 64, 10.0, 10.0, None, 19)]
    with pytest.raises(InputError, match="loaded no plugin"):
        searched({}, [])


class CPUWithNCCL:
    """A communicator of CPUs whose all-reduce asks the plugin as NCCL does, and then takes its time."""

    def __init__(self, base):
        self.base, self.nccl = base, NCCL(os.environ["NCCL_TUNER_PLUGIN"])

    def __getattr__(self, name):
        return getattr(self.base, name)

    def own_collective(self, name, parts, root):
        refused = [each for each in COMBINATIONS if each not in (OWN, WIDE._replace(channels=0))]

        def run():
            choice, _ = self.nccl.choose(name, parts[0].nbytes, refused)
            self.base.all_reduce(parts[0])
            time.sleep(0.002 if choice == WIDE else 0.01 if choice.protocol == WIDE.protocol else 0.03)

        return run


@pytest.mark.parallel(2)
def test_ranks_measure_and_write_the_plugin(monkeypatch, capsys, tmp_path):
    options = TuneOptions(collective=["all-reduce"], sizes=["1K"], nccl_tuner=tmp_path / "mine")
    who = TuneRankOptions(device="cpu", threads=1, repeats=1)
    with pytest.raises(InputError, match=r"nccl-tuner: NCCL cannot be used .* needs GPUs"):
        tune_command(options, who)
    monkeypatch.setattr(Ranks, "open", lambda self, name: (CPUWithNCCL(self.base), None))
    tune_command(options, who)
    if who.invocation.comm.rank == 0:
        assert "ring ll128, 8 channels" in capsys.readouterr().out
        assert NCCL(tmp_path / "mine" / LIBRARY).choose("all-reduce", 1024) == (WIDE, False)
