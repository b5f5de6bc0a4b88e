"""Bad input of `collective` and `fabric`: one line that names the key, exit code 2, nothing written."""

import json
import os

import pytest

from wavefabric.cli.collective.circuit_file import circuits_text
from wavefabric.collectives import ring_all_gather, to_json
from wavefabric.fabric import load
from wavefabric.fabric.photonic.planning import plan_circuits

RING = to_json(ring_all_gather([2, 2]))
SOUND = circuits_text(plan_circuits(ring_all_gather([2, 2]), load("lightpath:1x2")))


def spoilt(change):
    content = json.loads(RING)
    change(content)
    return json.dumps(content)


FILES = {
    "ring.json": RING,
    "lost.json": spoilt(lambda c: c["transfers"].pop()),
    "early.json": spoilt(lambda c: c["transfers"][0]["src"].__setitem__(2, 1)),
    "bare.json": spoilt(lambda c: c.__setitem__("transfers", [])),
    "broken.json": "{",
    "list.json": "[]",
    "ragged.csv": "1,2\n3\n",
    "minus.csv": "0,-1\n1,0\n",
    "odd.json": "[[0, 1], 3]",
    "text.json": '[[0, 1, "many"]]',
    "pairs.json": "[[0, 1], [2, 99]]",
    "bad.xml": "<algo name='x'></algo>",
    "other.xml": "<system><",
    "bad.toml": 'name = "x"\nkind = "photonic"\nrows = 2\n',
    "smi.txt": "\tGPU0\tGPU1\nGPU0\t X \n",
    "circuits.json": '{"format": "wavefabric circuits", "version": 2}',
    "sound.json": SOUND,
    "there.json": "mine",
    "there.png": "mine",
    "there.xml": "mine",
    "there.toml": "mine",
    "latin.json": b"\xff\xfe{}",
}

LIGHT, WIRES = ("--fabric", "lightpath:2x2"), ("--fabric", "ring:4")
MAKE, COST, DRAW = ("collective", "make"), ("collective", "cost"), ("collective", "draw")
VERIFY, EXPORT, RUN = ("collective", "verify"), ("collective", "export"), ("collective", "run")
TUNE = ("collective", "tune")
SHOW, ROUTES, MEASURE = ("fabric", "show"), ("fabric", "routes"), ("fabric", "measure")
RING8 = ("ring", "all-reduce", "--ranks", "8")

# (command and arguments, words that the line must hold)
BAD = [
    # make
    ([*MAKE], ["ALGORITHM", "--list"]),
    ([*MAKE, "rign", "all-reduce", "--ranks", "4"], ["rign", "recursive"]),
    ([*MAKE, "ring"], ["COLLECTIVE", "all-gather"]),
    ([*MAKE, "ring", "all-to-all", "--ranks", "4"], ["all-to-all", "all-gather"]),
    ([*MAKE, "ring", "all-reduce"], ["--ranks", "none given"]),
    ([*MAKE, "ring", "all-reduce", "--ranks", "0"], ["ranks", "0"]),
    ([*MAKE, "ring", "all-reduce", "--ranks", "-3"], ["ranks", "-3"]),
    ([*MAKE, "ring", "all-reduce", "--ranks", "1000000"], ["--ranks", "1000000", "4096"]),
    ([*MAKE, "ring", "all-reduce", "--ranks", "four"], ["--ranks", "integer"]),
    ([*MAKE, *RING8, "--radix", "4"], ["radix", "4"]),
    ([*MAKE, *RING8, "--pieces", "0"], ["pieces", "0"]),
    ([*MAKE, *RING8, "--elements", "-1"], ["elements", "-1"]),
    ([*MAKE, *RING8, "--root", "3"], ["root", "3"]),
    ([*MAKE, *RING8, "--grid", "2y4"], ["--grid", "2y4", "4x8"]),
    ([*MAKE, *RING8, "--grid", "0x4"], ["--grid", "0x4"]),
    ([*MAKE, "squares", "all-reduce", "--ranks", "16", "--grid", "3x5"], ["grid"]),
    ([*MAKE, "squares", "all-reduce", "--ranks", "12"], ["ranks", "12"]),
    ([*MAKE, "recursive", "all-reduce", "--ranks", "7"], ["ranks", "7", "radix"]),
    ([*MAKE, "recursive", "all-reduce", "--ranks", "8", "--radix", "1"], ["radix", "1"]),
    ([*MAKE, "tree", "broadcast", "--ranks", "8", "--root", "8"], ["root", "8", "7"]),
    ([*MAKE, *RING8, "--fabric", "ring:8"], ["--fabric", "optimal"]),
    ([*MAKE, *RING8, "--lasers", "2"], ["--lasers", "optimal or greedy"]),
    ([*MAKE, *RING8, "--messages", "odd.json"], ["--messages", "greedy"]),
    ([*MAKE, *RING8, "--conditions", "bare.json"], ["--conditions", "optimal"]),
    ([*MAKE, *RING8, "-o", "there.json"], ["there.json", "exists", "--force"]),
    ([*MAKE, *RING8, "-o", "x.txt"], ["x.txt", ".json"]),
    ([*MAKE, *RING8, "-o", "no/x.json"], ["no/x.json", "the folder no does not exist"]),
    ([*MAKE, *RING8, "-o", "folder.json"], ["folder.json", "folder"]),
    ([*MAKE, *RING8, "--time-limit", "5"], ["--time-limit", "5", "optimal"]),
    ([*MAKE, *RING8, "--seed", "0"], ["--seed", "0", "greedy"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--seed", "3"], ["--seed", "3", "greedy"]),
    ([*MAKE, "greedy", "--messages", "list.json", "--seed", "-1"], ["--seed", "-1"]),
    ([*MAKE, "greedy", "--messages", "list.json", "--time-limit", "1"], ["--time-limit", "optimal"]),
    ([*MAKE, "--list", "ring"], ["--list", "ring"]),
    ([*MAKE, "--list", "--radix", "3"], ["--list", "--radix"]),
    ([*MAKE, "--list", "-o", "x.json"], ["--list", "--output"]),
    ([*MAKE, "optimal"], ["COLLECTIVE", "all-gather"]),
    ([*MAKE, "optimal", "all-gather"], ["--fabric", "none given"]),
    ([*MAKE, "optimal", "all-gather", "--fabric", "nowhere"], ["fabric", "nowhere", "lightpath"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--ranks", "5"], ["--ranks", "5", "4"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--lasers", "0"], ["--lasers", "0"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--waveguides", "-1"], ["--waveguides"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--time-limit", "0"], ["--time-limit"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--time-limit", "nan"], ["--time-limit"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--radix", "2"], ["--radix", "optimal"]),
    ([*MAKE, "optimal", "all-gahter", *LIGHT], ["all-gahter", "all-gather"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--lasers", "2"], ["--lasers", "photonic"]),
    ([*MAKE, "optimal", *LIGHT, "--conditions", "ring.json"], ["--conditions", "2 transfers"]),
    ([*MAKE, "optimal", *LIGHT, "--conditions", "bare.json"], ["--conditions", "2 ranks", "4"]),
    ([*MAKE, "optimal", "all-gather", "--fabric", "lightpath:1x2", "--conditions", "bare.json"],
     ["--conditions", "one of the two"]),
    ([*MAKE, "direct", "all-to-all", "-n", "2", "--matrix", "lost.csv"], ["lost.csv"]),
    ([*MAKE, "direct", "all-to-all", "-n", "2", "--matrix", "ragged.csv"], ["ragged.csv", "row of 1"]),
    ([*MAKE, "direct", "all-to-all", "-n", "2", "--matrix", "minus.csv"], ["minus.csv", "-1", "from 0"]),
    ([*MAKE, "direct", "all-gather", "-n", "2", "--matrix", "ragged.csv"], ["--matrix", "all-to-all"]),
    ([*MAKE, "optimal", "all-gather", "--fabric", "switch:2000"], ["--fabric", "switch:2000", "fewer ranks"]),
    ([*MAKE, *RING8, "--routes", "xy"], ["--routes", "optimal"]),
    ([*MAKE, *RING8, "--steps", "2"], ["--steps", "optimal"]),
    ([*MAKE, *RING8, "--bytes", "1M"], ["--bytes", "optimal"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--routes", "yx"], ["--routes", "yx", "shortest"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--routes", "shortest:0"], ["--routes", "shortest:0", "64"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--routes", "xy:2"], ["--routes", "xy:2"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--routes", "xy"], ["--routes", "photonic"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--steps", "2"], ["--steps", "electrical"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--steps", "0"], ["--steps", "0", "1 to"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--rounds", "3"], ["--rounds", "3", "--steps"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--steps", "3", "--rounds", "2"], ["--rounds", "2", "3 --st"]),
    ([*MAKE, "optimal", "all-reduce", *WIRES, "--steps", "3"], ["steps", "3", "even"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--pieces", "0"], ["pieces", "0"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--pieces", "2147483648"], ["--pieces", "2147483648", "1 to"]),
    ([*MAKE, "optimal", "all-gather", *LIGHT, "--bytes", "1K,2K"], ["--bytes", "1K,2K", "one size"]),
    ([*MAKE, "optimal", "all-reduce", "--fabric", "lightpath:32x32"], ["fabric", "1024 tiles"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--bytes", "1M", "--pieces", "0"], ["pieces", "0", "from 1"]),
    ([*MAKE, "optimal", "all-gather", *WIRES, "--bytes", "1M", "--pieces", "99999"], ["99999", "32768"]),
    ([*MAKE, "optimal", "broadcast", *WIRES, "--bytes", "1M", "--root", "4"], ["root", "4", "3"]),
    ([*MAKE, "optimal", "all-gahter", *WIRES, "--bytes", "1M"], ["all-gahter", "all-gather"]),
    ([*MAKE, "greedy"], ["--messages", "none given"]),
    ([*MAKE, "greedy", "all-to-all", "--messages", "list.json"], ["COLLECTIVE", "all-to-all", "greedy"]),
    ([*MAKE, "greedy", "--messages", "broken.json"], ["--messages", "broken.json", "JSON"]),
    ([*MAKE, "greedy", "--messages", "odd.json"], ["odd.json[0]", "[src, dst, elements]"]),
    ([*MAKE, "greedy", "--messages", "text.json"], ["text.json[0]"]),
    ([*MAKE, "greedy", "--messages", "gone.json"], ["gone.json", "No such file"]),
    ([*MAKE, "greedy", "--messages", "list.json", "--radix", "2"], ["--radix", "greedy"]),
    ([*MAKE, "greedy", "--messages", "list.json", "--ranks", "2", "--lasers", "0"], ["lasers", "0"]),
    # verify
    ([*VERIFY, "ring.json", "--expect", "all-reduced"], ["--expect", "all-reduced", "all-reduce"]),
    ([*VERIFY], ["FILE"]),
    ([*VERIFY, "gone.json"], ["gone.json", "No such file"]),
    ([*VERIFY, "."], [".", "directory"]),
    ([*VERIFY, "broken.json"], ["broken.json", "JSON"]),
    ([*VERIFY, "list.json"], ["list.json"]),
    ([*VERIFY, "latin.json"], ["latin.json", "UTF-8"]),
    ([*VERIFY, "lost.json"], ["lost.json", "post", "data[1] of rank 0 holds nothing"]),
    ([*VERIFY, "early.json"], ["early.json", "transfer 0 (round 0", "transfer 1"]),
    ([*VERIFY, "ring.json", "lost.json"], ["lost.json", "post"]),
    ([*VERIFY, "bad.xml"], ["bad.xml"]),
    ([*VERIFY, "other.xml"], ["other.xml"]),
    ([*VERIFY, "ring.json", "--circuits", "circuits.json"], ["circuits.json", "version"]),
    ([*VERIFY, "ring.json", "--circuits", "list.json"], ["list.json", "format"]),
    ([*VERIFY, "ring.json", "ring.json", "--circuits", "circuits.json"], ["--circuits", "one"]),
    # cost
    ([*COST, "ring", "all-reduce"], ["--fabric", "none given"]),
    ([*COST, "--fabric", "ring:8"], ["schedule", "nothing given"]),
    ([*COST, "all-gather", "--algorithms", "optimal", *LIGHT], ["--algorithms", "optimal", "electrical"]),
    ([*COST, "all-gather", "--algorithms", "optimal", *WIRES, "--ranks", "2"], ["--ranks", "2", "4"]),
    ([*COST, "all-gather", "--algorithms", "optimal", *WIRES, "--model", "kernel"], ["kernel", "ring:4"]),
    ([*COST, "all-gahter", "--algorithms", "optimal", *WIRES], ["all-gahter", "all-gather"]),
    ([*COST, "all-gather", "--algorithms", "optimal", *WIRES, "--radix", "4"], ["--radix", "4", "use"]),
    ([*COST, "a", "b", "c", "--fabric", "ring:8"], ["a b c"]),
    ([*COST, "ring", "--fabric", "ring:8"], ["COLLECTIVE", "all-gather"]),
    ([*COST, "ring", "all-reduce", "--fabric", "ring:x"], ["ring:x"]),
    ([*COST, "ring", "all-reduce", "--fabric", "bad.toml"], ["bad.toml"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--ranks", "8"], ["ranks", "8", "4"]),
    ([*COST, "ring.json", "--ranks", "2", *WIRES], ["--ranks", "ring.json"]),
    ([*COST, "lost.json", *WIRES], ["post"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "0"], ["--bytes", "0"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "64Q"], ["--bytes", "64Q", "64M"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "1M:1K"], ["--bytes", "1M:1K", "least"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "1:2:3"], ["--bytes", "1:2:3"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "1K,"], ["--bytes"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "9" * 30], ["--bytes"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--bytes", "1K:1M", "--factor", "1"], ["--factor", "2"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--factor", "2"], ["--factor", "2", "least:most"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--seed", "-1"], ["--seed", "-1"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--seed", "1"], ["--seed", "--order auto"]),
    ([*COST, "ring.json", "--circuits", "sound.json", "--routing", "xy"], ["--routing", "xy", "--circuits"]),
    ([*COST, "ring.json", "--circuits", "sound.json", "--sharing", "paper"], ["--sharing", "--circuits"]),
    ([*COST, "ring.json", "--circuits", "sound.json", "--seed", "2"], ["--seed", "2", "--circuits"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--order", "0,1,x"], ["--order", "0,1,x", "auto"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--order", "0,1,2,4"], ["--order[3]", "4", "3"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--order", "0,1,1,2"], ["--order", "0,1,1,2", "once"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--order", "3,1"], ["--order", "2 GPUs", "4 ranks"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--order", "auto"], ["--order", "auto", "photonic"]),
    ([*COST, "all-reduce", "--algorithms", "ring,ring", *WIRES], ["--algorithms", "ring", "twice"]),
    ([*COST, "all-reduce", "--algorithms", "ring", "--radix", "3", *WIRES], ["--radix", "3"]),
    ([*COST, "all-reduce", "--algorithms", "direct,bruck", "--grid", "2x2", *WIRES], ["--grid", "2x2"]),
    ([*COST, "halo", "--algorithms", "torus", "--pieces", "2", *WIRES], ["--pieces", "2"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--model", "magic"], ["--model", "magic", "flow"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--model", "photonic"], ["model", "photonic", "ring:4"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--model", "flow"], ["model", "flow"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--routing", "xy"], ["--routing", "xy", "photonic"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--incremental"], ["--incremental", "photonic"]),
    ([*COST, "ring", "all-reduce", *WIRES, "--reconfigure", "best"], ["--reconfigure", "photonic"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--reconfigure", "zz"], ["--reconfigure", "zz", "never"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--reconfigure", "best", "--budget"], ["--budget"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--routing", "zz"], ["--routing", "zz", "ripup"]),
    ([*COST, "ring", "all-reduce", *LIGHT, "--sharing", "zz"], ["--sharing", "zz", "paper"]),
    ([*COST, "all-reduce", "--algorithms", "ring,rign", *WIRES], ["--algorithms", "rign"]),
    ([*COST, "all-reduce", "--algorithms", "all", "-n", "99", *WIRES], ["ranks: 99", "up to 4"]),
    ([*COST, "all-reduce", "--algorithms", "all,all", *WIRES], ["--algorithms", "all", "twice"]),
    ([*COST, "all-reduce", "--algorithms", "all", "--pieces", "0", *WIRES], ["--algorithms", "pieces: 0"]),
    ([*COST, "all-reduce", "--algorithms", "hierarchical:0x4", *WIRES], ["--grid", "0x4"]),
    ([*COST, "all-reduce", "--algorithms", "nvls", *WIRES], ["multicasts and reduces"]),
    ([*COST, "all-reduce", "--algorithms", "nvls-tree", *WIRES], ["grid: none", "4x8 (nvls-tree)"]),
    ([*COST, "ring", "all-reduce", "--graph", *WIRES], ["--graph", "--model auto"]),
    ([*COST, "all-reduce", "--algorithms", "ring:x", *WIRES], ["--algorithms", "ring:x"]),
    ([*COST, "halo", "--algorithms", "torus:2", *WIRES], ["torus:2", "no radix"]),
    ([*COST, "--algorithms", "ring", *WIRES], ["COLLECTIVE", "nothing"]),
    ([*COST, "ring", "all-reduce", "--algorithms", "ring", *WIRES], ["COLLECTIVE"]),
    ([*COST, "ring", "all-reduce", *WIRES, "-o", "there.png"], ["there.png", "exists"]),
    ([*COST, "ring", "all-reduce", *WIRES, "-o", "x.json"], ["x.json", ".png"]),
    # draw
    ([*DRAW, "ring", "all-reduce", *WIRES], ["--output", "none given"]),
    ([*DRAW, "ring", "all-reduce", "-o", "x.png"], ["--fabric", "none given"]),
    ([*DRAW, "ring", "all-reduce", *WIRES, "-o", "x.bmp"], ["x.bmp", ".gif"]),
    ([*DRAW, "ring", "all-reduce", *WIRES, "-o", "x.gif"], ["x.gif", "electrical"]),
    ([*DRAW, "ring", "all-reduce", *LIGHT, "-o", "there.png"], ["there.png", "exists"]),
    ([*DRAW, "ring", "all-reduce", *LIGHT, "-o", "x.png", "--rounds", "0"], ["--rounds"]),
    ([*DRAW, "ring", "all-reduce", *WIRES, "-o", "x.png", "--rounds", "2"], ["--rounds", "2", "photonic"]),
    ([*DRAW, "ring", "all-reduce", *LIGHT, "-o", "x.png", "--order", "auto"], ["--order", "photonic"]),
    ([*DRAW, "ring", "all-reduce", *LIGHT, "-o", "x.png", "--bytes", "1,2"], ["--bytes"]),
    ([*DRAW, "lost.json", "--fabric", "lightpath:1x2", "-o", "x.png"], ["post"]),
    ([*DRAW, "ring", "all-reduce", *WIRES, "--circuits", "circuits.json", "-o", "x.png"],
     ["--circuits", "photonic"]),
    # export
    ([*EXPORT, "ring.json"], ["--output"]),
    ([*EXPORT, "ring.json", "-o", "there.xml"], ["there.xml", "exists"]),
    ([*EXPORT, "ring.json", "-o", "x.png"], ["x.png", ".xml"]),
    ([*EXPORT, "lost.json", "-o", "x.xml"], ["lost.json", "post"]),
    ([*EXPORT, "ring.json", "-o", "x.json", "--proto", "LL"], ["--proto", ".xml"]),
    ([*EXPORT, "ring.json", "-o", "x.json", "--instances", "2"], ["--instances", "2", ".xml"]),
    ([*EXPORT, "ring.json", "-o", "x.json", "--apart"], ["--apart", ".xml"]),
    ([*EXPORT, "ring.json", "-o", "x.xml", "--instances", "0"], ["instances", "0"]),
    ([*EXPORT, "ring.json", "-o", "x.xml", "--slots", "0"], ["slots", "0"]),
    ([*EXPORT, "ring.json", "-o", "x.xml", "--proto", "fast"], ["proto", "fast", "LL128"]),
    ([*EXPORT, "ring.json", "-o", "x.xml", "--fabric", "ring:2"], ["--fabric", "ring:2", "photonic"]),
    # run
    ([*RUN], ["schedule", "nothing given"]),
    ([*RUN, "ring", "all-to-all", "--ranks", "2"], ["all-to-all", "all-gather"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--sizes", "x"], ["--sizes", "x"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--factor", "2"], ["--factor", "2", "--sizes"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--order", "auto"], ["--order", "--fabric"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "4", *WIRES, "--order", "0,9"], ["--order[1]", "9"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--protocol", ""], ["protocol", "none given", "copies"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--protocol", "auto,auto"], ["protocol", "auto", "twice"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--protocol", "LL"], ["protocol", "'LL'", "signals"]),
    ([*RUN, "ring", "all-reduce", "--ranks", "2", "--blocks", "4"], ["blocks", "4", "protocol", "signals"]),
    ([*RUN, "ring", "all-reduce", "--protocol", "signals", "--blocks", "0"], ["blocks: 0", "128"]),
    ([*RUN, "ring.json", "--ranks", "3"], ["--ranks", "3", "2"]),
    ([*RUN, "lost.json"], ["post"]),
    # tune
    ([*TUNE], ["--fabric", "none given", "--ranks 2 or more"]),
    ([*TUNE, "--fabric", "nowhere"], ["fabric", "nowhere", "dgx-1"]),
    ([*TUNE, *WIRES, "--collective", "halo"], ["--collective", "halo", "all-to-all"]),
    ([*TUNE, *WIRES, "--size", "many"], ["--sizes", "many"]),
    ([*TUNE, *WIRES, "--factor", "2"], ["--factor", "2", "without --sizes"]),
    ([*TUNE, *WIRES, "--factor", "2", "--sizes", "4K"], ["--factor", "2", "least:most"]),
    ([*TUNE, *WIRES, "--model", "photonic"], ["model", "photonic", "ring:4", "flow"]),
    ([*TUNE, *WIRES, "--model", "guess"], ["--model", "guess", "flow"]),
    ([*TUNE, *WIRES, "--ranks", "5", "--transport", "none"], ["ranks", "5", "2 to 4"]),
    ([*TUNE, *WIRES, "--ranks", "1"], ["ranks", "1", "2 to 4"]),
    ([*TUNE, *WIRES, "--transports", "mpi,none"], ["--transports", "mpi,none"]),
    ([*TUNE, *WIRES, "--repeats", "3"], ["--repeats", "3", "nothing is measured", "--ranks"]),
    ([*TUNE, *WIRES, "--dtype", "int32"], ["--dtype", "int32", "nothing is measured"]),
    ([*TUNE, *WIRES, "--device", "cpu"], ["--device", "cpu", "nothing is measured"]),
    ([*TUNE, *WIRES, "--within", "2"], ["--within", "2", "nothing is measured"]),
    ([*TUNE, "--ranks", "2", "--within", "2"], ["--within", "2", "without --fabric"]),
    ([*TUNE, "--ranks", "2", "--model", "flow"], ["--model", "flow", "without --fabric"]),
    ([*TUNE, "--ranks", "2", *WIRES, "--within", "0.5"], ["--within", "0.5", "1"]),
    ([*TUNE, "--ranks", "2", *WIRES], ["fabric", "ring:4 has 4", "2"]),
    ([*TUNE, *WIRES, "-o", "there.json"], ["--output", "there.json", "exists"]),
    ([*TUNE, *WIRES, "-o", "x.toml"], ["--output", "x.toml", ".json"]),
    ([*TUNE, *WIRES, "--plot", "there.png"], ["--plot", "there.png", "exists"]),
    ([*TUNE, *WIRES, "--plot", "x.gif"], ["--plot", "x.gif", ".svg"]),
    # fabric
    ([*SHOW, "nowhere"], ["fabric", "nowhere", "dgx-1"]),
    ([*SHOW, "ring:0"], ["ring:0"]),
    ([*SHOW, "lightpath:4"], ["lightpath:4", "4x8"]),
    ([*SHOW, "bad.toml"], ["bad.toml"]),
    ([*SHOW, "gone.toml"], ["gone.toml"]),
    ([*SHOW, "ring:4", "--import-smi", "smi.txt"], ["NAME", "2 fabrics"]),
    ([*SHOW, "ring:4", "--sm", "90"], ["--sm", "90", "ring:4", "nvidia-smi"]),
    ([*SHOW, "--sm", "90"], ["--sm", "without a fabric"]),
    ([*SHOW, "--nvlinks", "12"], ["--nvlinks", "without a fabric"]),
    ([*SHOW, "ring:4", "--nvlinks", "12"], ["--nvlinks", "12", "ring:4", "NCCL"]),
    ([*SHOW, "--import-smi", "smi.txt", "--sm", "-1"], ["--sm", "-1"]),
    ([*SHOW, "--save", "x.toml"], ["--save", "without a fabric"]),
    ([*SHOW, "-o", "x.png"], ["--output", "without a fabric"]),
    ([*SHOW, "ring:4", "--save", "there.toml"], ["there.toml", "exists"]),
    ([*SHOW, "ring:4", "--save", "x.json"], ["x.json", ".toml"]),
    ([*SHOW, "ring:4", "-o", "there.png"], ["there.png", "exists"]),
    ([*SHOW, "--import-nccl", "gone.xml"], ["--import-nccl", "gone.xml"]),
    ([*SHOW, "--import-nccl", "bad.xml"], ["bad.xml"]),
    ([*SHOW, "--import-smi", "broken.json"], ["broken.json"]),
    ([*ROUTES], ["FABRIC"]),
    ([*ROUTES, "ring:4"], ["FABRIC", "ring:4", "electrical"]),
    ([*ROUTES, "lightpath:2x2", "--pattern", "zz"], ["--pattern", "zz", "recursive"]),
    ([*ROUTES, "lightpath:2x2", "--method", "zz"], ["--method", "zz", "ripup"]),
    ([*ROUTES, "lightpath:2x2", "--pattern", "pairs"], ["--pairs", "none given"]),
    ([*ROUTES, "lightpath:2x2", "--pairs", "pairs.json"], ["--pairs", "--pattern recursive"]),
    ([*ROUTES, "lightpath:2x2", "--pattern", "pairs", "--pairs", "pairs.json"], ["pairs.json[1]", "99", "3"]),
    ([*ROUTES, "lightpath:2x2", "--pattern", "pairs", "--pairs", "list.json"], ["--pairs", "list"]),
    ([*ROUTES, "lightpath:2x3"], ["ranks", "6", "radix"]),
    ([*ROUTES, "lightpath:2x2", "--radix", "1"], ["radix", "1"]),
    ([*ROUTES, "lightpath:2x2", "--seed", "-1"], ["--seed", "-1"]),
    ([*ROUTES, "lightpath:2x2", "--time-limit", "0"], ["--time-limit"]),
    ([*ROUTES, "lightpath:2x2", "--pattern", "permutation", "--paths", "0"], ["k", "0"]),
    ([*ROUTES, "lightpath:2x2", "-o", "there.png"], ["there.png", "exists"]),
    ([*MEASURE, "-o", "there.toml", "--ranks", "2"], ["there.toml", "exists"]),
    ([*MEASURE, "--ranks", "2", "--factor", "3"], ["--factor", "3", "--sizes"]),
    ([*MEASURE, "--ranks", "0"], ["--ranks", "0"]),
    ([*MEASURE, "--ranks", "2", "--sizes", "none"], ["--sizes", "none"]),
    ([*MEASURE, "--ranks", "2", "--transport", "pigeon"], ["transport", "pigeon"]),
]  # fmt: skip
#: Refused after seconds: a search begins, ranks start.
LATE = ("switch:2000", "pigeon")


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        pytest.param(
            words, needed, id=" ".join(words)[:70], marks=[pytest.mark.slow] * any(w in words for w in LATE)
        )
        for words, needed in BAD
    ],
)
def test_refused_in_one_line(command, tmp_path, words, needed):
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "folder.json").mkdir()
    code, out, err = command(*words)
    assert code == 2, (out, err)
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("wavefabric: error: ")
    for word in needed:
        assert word in err, err
    assert sorted(os.listdir(tmp_path)) == sorted([*FILES, "folder.json"])
    assert (tmp_path / "there.json").read_text() == "mine"


def test_a_plan_of_too_many_ranks_is_refused_before_a_schedule_is_built(command, monkeypatch):
    monkeypatch.setattr("wavefabric.cli.collective.compile.schedule_from", None)
    code, _, err = command("collective", "compile", "direct", "all-to-all", "-n", "1024")
    assert (code, err.count("\n")) == (2, 1)
    assert "--ranks: 1024 given; allowed: 1 to 72" in err
