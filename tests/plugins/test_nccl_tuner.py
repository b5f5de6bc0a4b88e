"""NCCL's tuner plugin, called as NCCL does; its table; what is measured for it."""

import ctypes as ct
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.nccl_tuner import __main__ as program
from plugins.nccl_tuner import tuner as module
from plugins.nccl_tuner.tuner import COMBINATIONS, LIBRARY, TABLE, NCCLChoice, NCCLSize, NCCLTuning
from wavefabric import cli
from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.exchange.launch import launcher

pytestmark = pytest.mark.skipif(not shutil.which("objdump"), reason="needs a C compiler and binutils")
NUMBER = {"broadcast": 0, "reduce": 1, "all-gather": 2, "reduce-scatter": 3, "all-reduce": 4, "all-to-all": 8}
LOGGER = ct.CFUNCTYPE(None, ct.c_int, ct.c_ulong, *(ct.c_char_p, ct.c_int, ct.c_char_p) * 2)
CONTEXT, SIZES = ct.POINTER(ct.c_void_p), (ct.c_size_t, ct.c_size_t, LOGGER)
INIT_V4 = ct.CFUNCTYPE(ct.c_int, *SIZES, CONTEXT)
INIT = ct.CFUNCTYPE(ct.c_int, CONTEXT, ct.c_uint64, *SIZES, ct.c_void_p, ct.c_void_p)
COSTS = ct.c_void_p, ct.c_int, ct.c_int, ct.c_int, ct.POINTER(ct.c_int)
GET = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_int, ct.c_size_t, ct.c_int, *COSTS)


class NCCL:
    """A communicator as a tuner plugin sees it: costs of 7 x 3 floats, of which the least is taken."""

    def __init__(self, library, version=5, ranks=2, nodes=1):
        plugin, name = ct.CDLL(str(library)), f"ncclTunerPlugin_v{version}"
        _, init, get, end, *chunk = (ct.c_void_p * min(version, 5)).in_dll(plugin, name)
        assert chunk in ([], [None])  # NCCL calls what is not NULL
        self.get, self.context, self.said = GET(get), ct.c_void_p(), []
        self.finalize = lambda: ct.CFUNCTYPE(ct.c_int, ct.c_void_p)(end)(self.context)
        log = LOGGER(lambda level, _, file, line, text, *values: self.said.append((level, text, values)))
        words, context = (ranks, nodes, log), ct.byref(self.context)
        init = INIT_V4(init)(*words, context) if version == 4 else INIT(init)(context, 7, *words, None, None)
        assert init == 0

    def choose(self, name, size, impossible=(), registered=0):
        """The choice, and whether the costs are as they were."""
        before = [-1.0 if each in impossible else 50.0 + k for k, each in enumerate(COMBINATIONS)]
        costs, channels = (ct.c_float * 21)(*before), ct.c_int(0)
        assert self.get(self.context, NUMBER[name], size, 1, costs, 7, 3, registered, ct.byref(channels)) == 0
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
    made = tuning(("all-reduce", 1024, WIDE), ("all-reduce", 4096, FAST))
    path, _ = module.write_plugin(tmp_path / "new", made)
    assert sorted(os.listdir(tmp_path / "new")) == [LIBRARY, TABLE]
    nccl = NCCL(path, version)
    assert nccl.choose("all-reduce", 1024) == nccl.choose("all-reduce", 2047) == (WIDE, False)
    assert nccl.choose("all-reduce", 2048) == nccl.choose("all-reduce", 4096) == (FAST, False)
    words = ("all-reduce", 1023), ("all-reduce", 4097), ("broadcast", 1024), ("all-to-all", 1024)
    words += ("all-reduce", 1024, [WIDE._replace(channels=0)]), ("all-reduce", 1024, (), 1)
    assert {nccl.choose(*each) for each in words} == {(OWN, True)}
    assert nccl.finalize() == 0
    others = {NCCL(path, version, *each).choose("all-reduce", 1024) for each in ((4, 1), (2, 2))}
    assert others == {(OWN, True)}
    with pytest.raises(InputError, match=f"{LIBRARY} exists; allowed: another name, or --force"):
        module.write_plugin(tmp_path / "new", made)


def as_example_plugin(text, collective, nbytes):
    """By the rules of NCCL's plugins/tuner/example/plugin.c: the first line that matches, or None.

    Commas part 8 to 10 words, blanks around them do not count; bytes with both ends; -1 matches anything.
    """
    for line in text.splitlines():
        words = [word.strip(" \t") for word in line.split(",") if word]
        if not line.startswith("#") and 8 <= len(words) <= 10 and len(line) < 255:
            least, most, channels, *wanted = map(int, (*words[1:3], *words[5:]))
            same = all(want in (-1, fact) for want, fact in zip(wanted, (1, 2, 1, 0), strict=False))
            if same and words[0] == collective.replace("-", "") and least <= nbytes <= most:
                return NCCLChoice(words[3], words[4], max(channels, 0))
    return None


CHOICES = st.none() | st.sampled_from(COMBINATIONS) | st.builds(WIDE._replace, channels=st.integers(1, 64))
ROWS = st.dictionaries(st.integers(1, 1 << 40), CHOICES, min_size=1, max_size=9)


@pytest.mark.slow
@settings(max_examples=60)
@given(drawn=st.fixed_dictionaries(dict.fromkeys(("all-reduce", "broadcast"), ROWS)), data=st.data())
def test_the_nearest_size_counts(library, drawn, data):
    sizes = ((name, *each) for name in drawn for each in sorted(drawn[name].items()))
    library.with_name(TABLE).write_text(text := tuning(*sizes).to_text())
    nccl, (name, ends) = NCCL(library), data.draw(st.sampled_from(list(drawn.items())))
    near = st.sampled_from(list(ends)).flatmap(lambda n: st.integers(n - 1, n + 1))
    for nbytes in data.draw(st.lists(st.integers(0, 1 << 41) | near, min_size=5)):
        expected = None
        if min(ends) <= nbytes <= max(ends):
            below, above = max(n for n in ends if n <= nbytes), min(n for n in ends if n >= nbytes)
            expected = ends[below if nbytes * nbytes < below * above else above]
        assert nccl.choose(name, nbytes) == (expected or OWN, expected is None)
        assert as_example_plugin(text, name, nbytes) == expected


ROW = "allreduce,1,8,ring,ll,-1,1,2,-1,0\n"
BAD = [
    (None, 0, "cannot be read"),
    (ROW + ROW, 2, "do not rise"),
    ("# x\n" + ROW.replace("ring", "rung"), 2, "unknown"),
    (ROW.replace("-1,1,2", "65,1,2"), 1, "channels"),
    (ROW.replace("ring,ll,-1", "nvls,ll,8"), 1, "channels"),
    (ROW.replace("-1,0", "-1,1"), 1, "ten columns"),
    (f"# {'x' * 300}\n", 2, "ten columns"),
    ("\x00\xff", 1, "ten columns"),
]


@pytest.mark.parametrize(("text", "line", "fault"), BAD)
def test_a_bad_table_leaves_everything_to_nccl(library, tmp_path, monkeypatch, text, line, fault):
    table = tmp_path / "some.conf"
    table.write_text(text, "latin-1") if text else None
    monkeypatch.setenv("WAVEFABRIC_NCCL_TUNER_TABLE", str(table))
    nccl = NCCL(library)
    ((level, _, (*where, why)),) = nccl.said
    assert (level, where, fault in why.decode()) == (2, [bytes(table), line], True)
    assert (nccl.choose("all-reduce", 4), nccl.finalize()) == ((OWN, True), 0)


def test_a_choice_calls_nothing_and_so_allocates_nothing(library):
    def leaves(function):
        text = subprocess.getoutput(f"objdump --no-show-raw-insn --disassemble={function} {library}")
        assert f"<{function}>:" in text
        return re.findall(rf"\t(?:call|bl).*|\t(?:j|b)\S*\s.*<(?!{function}\+).*>", text)

    assert leaves("choose") == []
    assert any("free" in each for each in leaves("finalize"))


def test_only_what_is_clearly_faster_replaces_nccls_own_choice():
    def searched(fast, usable=tuple(each[:2] for each in COMBINATIONS), stop=None):
        def timer(name, nbytes, choice):
            if nbytes == stop:
                raise KeyboardInterrupt
            return fast.get(choice, (10.0, 9.5, 10.5)) if not choice or choice[:2] in usable else None

        return module.search(["reduce"], [64, 256], timer, Progress())

    ring, tree, few = NCCLChoice("ring", "ll"), NCCLChoice("tree", "simple"), NCCLChoice("ring", "ll", 2)
    for us, choice, fast in [
        (9.8, ring, {ring: (9.8, 9.0, 9.4), tree: (9.0, 8.0, 9.6)}),  # a sample not below 9.5
        (10.0, None, {ring: (9.81, 9.0, 9.4)}),  # 1.9 %
        (9.8, ring, {ring: (9.8, 9.0, 9.4), few: (9.7, 9.0, 9.4)}),
        (8.0, few, {ring: (9.0, 8.9, 9.1), few: (8.0, 7.0, 8.5)}),
    ]:
        assert searched(fast) == [("reduce", size, 10.0, us, choice, 0) for size in (64, 256)]
    assert searched({}, [ring[:2], tree[:2]], 256) == [("reduce", 64, 10.0, 10.0, None, 19)]
    with pytest.raises(InputError, match="loaded no plugin"):
        searched({}, [])


@pytest.mark.parallel(2)
def test_ranks_measure_and_write_the_plugin(monkeypatch, capsys, tmp_path):
    late, clock = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + late[0])

    def open_nccl(ranks, _):  # an all-reduce between CPUs that asks the plugin as NCCL does
        nccl = NCCL(os.environ["NCCL_TUNER_PLUGIN"])

        def run(name, part):
            choice, _ = nccl.choose(name, part.nbytes, {*COMBINATIONS} - {OWN, ("ring", "ll128", 0)})
            ranks.base.all_reduce(part)
            late[0] += {WIDE: 10.0, OWN: 90.0}.get(choice, 30.0)  # of a clock that no load disturbs

        ranks.base.own_collective = lambda name, parts, root: lambda: run(name, parts[0])
        return ranks.base, None

    options = program.NCCLTunerOptions(collective=["all-reduce"], sizes=["1K"])
    who = program.NCCLRankOptions(device="cpu", threads=1, repeats=1)
    with pytest.raises(InputError, match=r"nccl-tuner: NCCL cannot be used .* needs GPUs"):
        program.command(options, who, tmp_path / "mine")
    monkeypatch.setattr(module, "CHANNELS", (4, 8))
    monkeypatch.setattr(Ranks, "open", open_nccl)
    program.command(options, who, tmp_path / "mine")
    if who.invocation.comm.rank == 0:
        assert "ring ll128, 8 channels" in capsys.readouterr().out
        assert NCCL(tmp_path / "mine" / LIBRARY).choose("all-reduce", 1024) == (WIDE, False)


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")
def test_the_program_starts_ranks_of_itself(monkeypatch, capsys, tmp_path):
    jobs = []
    monkeypatch.setattr(launcher, "launch", lambda job: jobs.append(job) or 0)
    monkeypatch.setattr(cli.app, "commands", dict(cli.app.commands))
    words = ["--ranks", "3", "--device", "cpu", str(tmp_path / "mine"), "--size", "1K"]

    def call(*more):
        with pytest.raises(SystemExit) as left:
            program.main([*words, *more])
        return left.value.code, *capsys.readouterr()

    assert call() == (0, "", "")
    assert [(job.ranks, job.arguments, job.program) for job in jobs] == [(3, words, program.PROGRAM)]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / TABLE).touch()
    why = f"nccl-tuner: {tmp_path / 'mine' / TABLE} exists; allowed: another name, or --force (force=True)"
    assert call() == (2, "", f"wavefabric: error: {why}\n")
    assert call("--force") == (0, "", "")
    assert (len(jobs), os.listdir(tmp_path)) == (2, ["mine"])
    folder = [sys.executable, str(Path(program.__file__).parent), "--help"]
    module = [sys.executable, "-m", "plugins.nccl_tuner", "--help"]
    for words, where in ((folder, tmp_path), (module, Path(__file__).parents[2])):
        done = subprocess.run(words, cwd=where, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "--collective" in done.stdout
