"""A plain interpreter of MSCCL algorithms on numbers: blocks in random order, buffers with few slots."""

import random
from collections import deque
from xml.etree import ElementTree


class Stuck(Exception):
    """No thread block can go on."""


def numbers(rank, item):
    """What rank `rank` contributes to an item."""
    return 1 + (rank * 7919 + item * 104729) % 1000003


class Machine:
    """All GPUs of an algorithm; `memory[gpu][letter]` are lists of numbers, None where there is nothing."""

    def __init__(self, text, fits=1, seed=0):
        root = ElementTree.fromstring(text)
        self.fits, self.random = fits, random.Random(seed)
        self.memory, self.blocks, self.flags, self.fifos, self.sent = [], [], {}, {}, {}
        for gpu in sorted(root.findall("gpu"), key=lambda e: int(e.get("id"))):
            self.memory.append({b: [None] * int(gpu.get(f"{b}_chunks")) for b in "ios"})
            for tb in gpu.findall("tb"):
                key = int(gpu.get("id")), int(tb.get("id"))
                steps = [
                    {k: v if k in ("type", "srcbuf", "dstbuf") else int(v) for k, v in step.attrib.items()}
                    for step in tb.findall("step")
                ]
                ends = {way: int(tb.get(way)) for way in ("send", "recv", "chan")}
                self.blocks.append((key, ends, steps, [0, 0]))
                self.flags[key] = -1

    def run(self):
        """All steps, one chunk at a time, of any block that can go on."""
        live = [b for b in self.blocks if b[2]]
        while live:
            self.random.shuffle(live)
            if not any([self._go_on(*block) for block in live]):
                raise Stuck
            live = [b for b in live if b[3][0] < len(b[2])]

    def _fifo(self, gpu, ends, way):
        pair = (gpu, ends["send"]) if way == "send" else (ends["recv"], gpu)
        return self.fifos.setdefault((*pair, ends["chan"]), deque())

    def _go_on(self, key, ends, steps, at):
        """One chunk of the current step, if nothing is in the way."""
        gpu, step = key[0], steps[at[0]]
        kind, memory = step["type"], self.memory[key[0]]
        if at[1] == 0 and step["depid"] >= 0 and self.flags[gpu, step["depid"]] < step["deps"]:
            return False
        sends, receives = kind in ("s", "rcs", "rrs", "rrcs"), kind in ("r", "rcs", "rrc", "rrs", "rrcs")
        if sends and len(self._fifo(gpu, ends, "send")) >= self.fits:
            return False
        if receives and not self._fifo(gpu, ends, "recv"):
            return False
        value = self._fifo(gpu, ends, "recv").popleft() if receives else None
        src, dst = step["srcoff"] + at[1], step["dstoff"] + at[1]
        if kind in ("s", "cpy", "re"):
            value = memory[step["srcbuf"]][src]
        elif kind in ("rrs", "rrc", "rrcs"):
            value += memory[step["srcbuf"]][src]
        if kind == "re":
            value += memory[step["dstbuf"]][dst]
        if kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
            memory[step["dstbuf"]][dst] = value
        if sends:
            self._fifo(gpu, ends, "send").append(value)
            pair = gpu, ends["send"]
            self.sent[pair] = self.sent.get(pair, 0) + 1
        at[1] += 1
        if at[1] >= max(1, step["cnt"]):
            if step["hasdep"]:
                self.flags[key] = step["s"]
            at[0], at[1] = at[0] + 1, 0
        return True


def traffic(schedule):
    """Chunks from rank to rank."""
    found = {}
    for t in schedule.transfers:
        if t["src"] != t["dst"]:
            pair = int(t["src"]), int(t["dst"])
            found[pair] = found.get(pair, 0) + int(t["count"])
    return found
