"""Define an MSCCL algorithm as tables of numbers, its limits, and its XML.

Grammar and limits: github.com/microsoft/msccl, src/graph/topo.cc (`mscclGetAlgoFromXMLAndSetAlgo`),
src/include/msccl.h and src/collectives/device/msccl_interpreter.h; writer: github.com/microsoft/msccl-tools,
msccl/language/ir.py.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.xml import one_of, parse_xml, text_of, whole_of
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.formats.buffers import CollectiveArrays
from wavefabric.collectives.schedule import PROTOCOLS
from wavefabric.collectives.sizes import MOST_CHUNKS, MOST_RANKS
from wavefabric.collectives.structure import NAMES, is_name

#: Limits of the runtime: steps of a thread block, thread blocks of a GPU, channels, thread blocks of a
#: channel that send (and as many that receive), chunks that a step moves, number of a block that a step may
#: wait for (kept in 8 bits).
STEPS, BLOCKS, CHANNELS, PER_CHANNEL, COUNT, WAITED_BLOCK = 256, 216, 32, 32, 71, 127

#: Slots of a connection's buffer (NCCL_STEPS), and slots per message: Simple cuts a message in two slices of
#: two slots (MSCCL_CHUNKSTEPS = NCCL_STEPS / 2).
SLOTS = 8
SLOTS_PER_MESSAGE = {"Simple": 4, "LL": 1, "LL128": 1}
#: Largest number of data bytes per message, with NCCL's default buffers of 4 MiB, 512 KiB (half of it flags)
#: and 4800 KiB (a sixteenth of it flags).
MESSAGE_BYTES = {"Simple": 2_097_152, "LL": 32_768, "LL128": 576_000}
#: Names of collectives in MSCCL, and in this package; others are ``custom``.
COLLS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "reduce_scatter": "reduce-scatter",
    "custom": None,
}
#: Types of steps: send; receive; receive, copy and send; receive, reduce and send; receive, reduce and copy;
#: receive, reduce, copy and send; local copy; local reduce; residual addition; nothing.
TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "ra", "nop")
S, R, RCS, RRS, RRC, RRCS, CPY, RE, RA, NOP = range(len(TYPES))
#: By type: whether a step sends, receives, reads `src`, writes `dst`.
SENDS = np.isin(TYPES, ("s", "rcs", "rrs", "rrcs"))
RECEIVES = np.isin(TYPES, ("r", "rcs", "rrs", "rrc", "rrcs"))
READS = np.isin(TYPES, ("s", "rrs", "rrc", "rrcs", "cpy", "re"))
WRITES = np.isin(TYPES, ("r", "rcs", "rrc", "rrcs", "cpy", "re", "ra"))
#: Buffers: input, output, scratch.
BUFFERS = ("i", "o", "s")

#: Thread blocks, in the order of GPU and id.
BLOCK = np.dtype([(name, np.int32) for name in ("gpu", "id", "send", "recv", "chan")])
#: Steps, in the order of their blocks; ``block`` is a row of the table of blocks, ``s`` the number in it.
STEP = np.dtype(
    [(name, np.int32) for name in ("block", "s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt")]
    + [(name, np.int32) for name in ("depid", "deps", "hasdep")]
)

_MOST = 2**31 - 1
#: ``maxBytes`` that every runtime accepts as no limit: 0 means that to Azure's and RCCL's, not Microsoft's.
_UNLIMITED = 1 << 40


@dataclass(frozen=True, eq=False)
class MscclAlgorithm:
    """Holds an MSCCL algorithm: ``proto`` is one of `PROTOCOLS`, ``coll`` one of `COLLS`."""

    name: str
    proto: str
    coll: str
    #: ``chunks`` is ``nchunksperloop``; other readers ignore roots and collectives that MSCCL does not name.
    arrays: CollectiveArrays
    channels: int
    #: Rows of `BLOCK` and of `STEP`.
    blocks: np.ndarray = field(repr=False)
    steps: np.ndarray = field(repr=False)
    #: Sizes of the whole array that the algorithm is for (``minBytes``, ``maxBytes``); None: no limit.
    min_bytes: int = 0
    max_bytes: int | None = None
    #: Whether the file has ``maxBytes``; `max_bytes` is None if not.
    declared: bool = True

    @property
    def gpus(self) -> int:
        return self.arrays.gpus

    @cached_property
    def gpu(self) -> np.ndarray:
        """Return the GPU of each step."""
        return self.blocks["gpu"][self.steps["block"]].astype(np.int64)

    @cached_property
    def waited(self) -> np.ndarray:
        """Return, for each step, the row of the step that it waits for (`depid` and `deps`), −1 for none."""
        first_block = np.searchsorted(self.blocks["gpu"], np.arange(self.gpus))
        first_step = np.searchsorted(self.steps["block"], np.arange(len(self.blocks) + 1))
        waits = self.steps["depid"] >= 0
        block = np.where(waits, first_block[self.gpu] + self.steps["depid"], 0)
        return np.where(waits, first_step[block] + self.steps["deps"], -1)

    def on_connections(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Return all sends or all receives sorted by connection, as row numbers, and the connection of each.

        ``direction``: ``"send"`` or ``"recv"``. Sender, receiver and channel give the connection's number.
        """
        row = np.flatnonzero((SENDS if direction == "send" else RECEIVES)[self.steps["type"]])
        blocks = self.blocks[self.steps["block"][row]]
        ends = (self.gpu[row], blocks[direction].astype(np.int64))
        source, target = ends if direction == "send" else ends[::-1]
        connection = (source * self.gpus + target) * CHANNELS + blocks["chan"]
        order = np.argsort(connection, kind="stable")
        return row[order], connection[order]

    @cached_property
    def senders(self) -> np.ndarray:
        """Return for each receive the row of the send that it belongs to, −1 for steps that do not receive.

        On a connection the k-th receive belongs to the k-th send. `InputError` if there are unequal numbers
        of sends and receives, or a pair differs in `cnt`.
        """
        (sent, a), (received, b) = self.on_connections("send"), self.on_connections("recv")
        keys, at = np.unique(np.concatenate((a, b)), return_inverse=True)
        sends, receives = (np.bincount(n, minlength=keys.size) for n in np.split(at, [a.size]))
        if (sends != receives).any():
            i = int(np.argmax(sends != receives))
            pair, chan = divmod(int(keys[i]), CHANNELS)
            where = "gpu {} to gpu {} on channel {}".format(*divmod(pair, self.gpus), chan)
            raise InputError(f"{where}: {sends[i]} sends, {receives[i]} receives; allowed: as many of both")
        counts = self.steps["cnt"]
        wrong = counts[sent] != counts[received]
        if wrong.any():
            s, r = int(sent[np.argmax(wrong)]), int(received[np.argmax(wrong)])
            actual = f"{counts[s]}, received by {self.step_name(r)} with {counts[r]}"
            raise InputError(f"{self.step_name(s)} cnt: {actual}; allowed: the same")
        senders = np.full(len(self.steps), -1, np.int64)
        senders[received] = sent
        return senders

    @cached_property
    def causes(self) -> np.ndarray:
        """Return the steps that each step comes directly after, −1 for none: shape (steps, 3).

        They are the previous step of its block, the step that it waits for, and the send that it receives.
        """
        before = np.where(self.steps["s"] > 0, np.arange(self.steps.size) - 1, -1)
        return np.stack((before, self.waited, self.senders), axis=1)

    @cached_property
    def order(self) -> list[int]:
        """Return the steps, as row numbers, in an order in which they can run, if there is no deadlock.

        Receives come as soon after their sends as possible.
        """
        following: list[list[int]] = [[] for _ in range(self.steps.size)]
        missing = np.count_nonzero(self.causes >= 0, axis=1)
        for before in self.causes.T:
            after = np.flatnonzero(before >= 0)
            for one, other in zip(before[after].tolist(), after.tolist(), strict=True):
                following[one].append(other)
        urgency = np.where(self.senders >= 0, 0, np.where(SENDS[self.steps["type"]], 1, 2)).tolist()
        ready: tuple[list[int], ...] = ([], [], [])
        for row in np.flatnonzero(missing == 0)[::-1].tolist():
            ready[urgency[row]].append(row)
        open_causes, order = missing.tolist(), []
        while any(ready):
            row = next(rows for rows in ready if rows).pop()
            order.append(row)
            for other in following[row]:
                open_causes[other] -= 1
                if not open_causes[other]:
                    ready[urgency[other]].append(other)
        return order

    def step_name(self, row: int) -> str:
        """Describe a step in words."""
        step = self.steps[row]
        block = self.blocks[step["block"]]
        return f"gpu {block['gpu']} tb {block['id']} step {step['s']} ({TYPES[step['type']]})"


def write_algorithm(a: MscclAlgorithm) -> str:
    """Return the XML of an algorithm, one step per line."""
    own = a.arrays
    more = f' collective="{own.collective}"' if own.collective and COLLS[a.coll] is None else ""
    more += f' root="{own.root}"' if own.root is not None else ""
    most = f' maxBytes="{_UNLIMITED if a.max_bytes is None else a.max_bytes}"' if a.declared else ""
    lines = [
        f'<algo name="{a.name}" proto="{a.proto}" nchannels="{a.channels}" nchunksperloop="{own.chunks}" '
        f'ngpus="{a.gpus}" coll="{a.coll}" inplace="{int(own.inplace)}" outofplace="{int(not own.inplace)}" '
        f'minBytes="{a.min_bytes}"{most}{more}>'
    ]
    steps_of = np.split(a.steps, np.searchsorted(a.steps["block"], np.arange(1, len(a.blocks))))
    for gpu, (i, o, s) in enumerate(own.sizes.tolist()):
        lines.append(f'  <gpu id="{gpu}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">')
        for row in np.flatnonzero(a.blocks["gpu"] == gpu).tolist():
            _, number, send, recv, chan = a.blocks[row].tolist()
            lines.append(f'    <tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">')
            for _, n, kind, sb, so, db, do, cnt, depid, deps, hasdep in steps_of[row].tolist():
                lines.append(
                    f'      <step s="{n}" type="{TYPES[kind]}" srcbuf="{BUFFERS[sb]}" srcoff="{so}" '
                    f'dstbuf="{BUFFERS[db]}" dstoff="{do}" cnt="{cnt}" depid="{depid}" deps="{deps}" '
                    f'hasdep="{hasdep}"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def read_algorithm(text: str) -> MscclAlgorithm:
    """Return the algorithm that XML text describes; each attribute is checked separately.

    Comments and unknown attributes and elements are ignored, as in the runtime.
    """
    root = parse_xml(text, "msccl")
    ensure(root.tag == "algo", "msccl", f"root element {root.tag[:60]!r}", "algo")
    gpus = whole_of(root, "algo", "ngpus", 1, MOST_RANKS)
    name = text_of(root, "algo", "name")
    ensure(is_name(name), "algo name", f"{name[:60]!r}", NAMES)
    whole_of(root, "algo", "nthreads", 0, _MOST, 0)
    inplace = bool(whole_of(root, "algo", "inplace", 0, 1))
    low = whole_of(root, "algo", "minBytes", 0, 2**63 - 1, 0)
    high = whole_of(root, "algo", "maxBytes", 0, 2**63 - 1, 0)
    ensure(not 0 < high < low, "algo minBytes", low, f"0 to maxBytes, {high}")
    sizes = np.zeros((gpus, 3), np.int64)
    blocks: list[tuple] = []
    steps: list[tuple] = []
    once = f"each from 0 to {gpus - 1} once"
    for gpu, element in enumerate(_numbered(root, "gpu", "gpu", gpus, (once, once), gpus)):
        sizes[gpu] = [whole_of(element, f"gpu {gpu}", f"{b}_chunks", 0, MOST_CHUNKS // gpus) for b in BUFFERS]
        allowed = ("each number once", "0, 1, 2, … without a gap")
        for number, tb in enumerate(_numbered(element, f"gpu {gpu} tb", "tb", BLOCKS, allowed)):
            _read_block(tb, gpu, number, gpus, blocks, steps)
    coll = one_of(root, "algo", "coll", tuple(COLLS))
    collective = COLLS[coll] or root.get("collective")
    if collective is not None and collective not in COLLECTIVES:
        raise InputError(f"algo collective: {collective[:60]!r}; allowed: {', '.join(COLLECTIVES)}")
    chunks = whole_of(root, "algo", "nchunksperloop", 0, MOST_CHUNKS // gpus)
    at = whole_of(root, "algo", "root", 0, gpus - 1) if "root" in root.attrib else None
    keys = "algo nchunksperloop", "i_chunks", "o_chunks"
    return MscclAlgorithm(
        name=name,
        proto=one_of(root, "algo", "proto", PROTOCOLS),
        coll=coll,
        arrays=CollectiveArrays(COLLS[coll], collective, inplace, chunks, sizes, at, keys),
        channels=whole_of(root, "algo", "nchannels", 0, CHANNELS),
        blocks=np.array(blocks, BLOCK),
        steps=np.array(steps, STEP),
        min_bytes=low,
        max_bytes=high if 0 < high < _UNLIMITED else None,
        declared="maxBytes" in root.attrib,
    )


def _numbered(
    parent, where: str, tag: str, most: int, allowed: tuple[str, str], count: int | None = None
) -> list:
    """Return the children ``tag`` of an XML element, sorted by their ids, which must be 0, 1, 2, ….

    Ids must be below ``most``; there must be ``count`` of them, if given. ``allowed``: what errors say about
    a repeated and about a missing id.
    """
    by_id = {}
    for child in parent.iterfind(tag):
        number = whole_of(child, where, "id", 0, most - 1)
        ensure(number not in by_id, f"{where} id", f"{number} given twice", allowed[0])
        by_id[number] = child
    wanted = range(len(by_id) if count is None else count)
    if missing := [number for number in wanted if number not in by_id]:
        raise InputError(f"{where} id: {missing[0]} is missing; allowed: {allowed[1]}")
    return [by_id[number] for number in wanted]


def _read_block(tb, gpu: int, number: int, gpus: int, blocks: list, steps: list) -> None:
    where = f"gpu {gpu} tb {number}"
    peers = {key: whole_of(tb, where, key, -1, gpus - 1) for key in ("send", "recv")}
    for key, peer in peers.items():
        ensure(peer != gpu, f"{where} {key}", f"{gpu}, the GPU itself", "another GPU, or -1")
    lowest = -1 if max(peers.values()) == -1 else 0
    chan = whole_of(tb, where, "chan", lowest, CHANNELS - 1)
    for s, step in enumerate(tb.iterfind("step")):
        actual = whole_of(step, f"{where} step", "s", 0, STEPS - 1)
        if actual != s:
            raise InputError(f"{where} step s: {actual}; allowed: {s}, the order of the elements")
        steps.append((len(blocks), s, *_read_step(step, f"{where} step {s}")))
    blocks.append((gpu, number, peers["send"], peers["recv"], chan))


def _read_step(step, where: str) -> list[int]:
    """Return the values of a ``step`` element for the columns of `STEP` from ``type`` on."""
    kind = TYPES.index(one_of(step, where, "type", TYPES))
    columns = [kind]
    for side in ("src", "dst"):
        columns.append(BUFFERS.index(one_of(step, where, f"{side}buf", BUFFERS)))
        columns.append(whole_of(step, where, f"{side}off", -1, _MOST))
    limits = {"cnt": (0 if kind == NOP else 1, COUNT), "depid": (-1, BLOCKS - 1), "deps": (-1, STEPS - 1)}
    limits["hasdep"] = (0, 1)
    return [*columns, *(whole_of(step, where, key, *limit) for key, limit in limits.items())]
