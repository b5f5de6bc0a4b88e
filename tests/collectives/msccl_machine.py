"""A plain interpreter of MSCCL algorithms on numbers: blocks in random order, buffers with few slots.

A message takes one slot (or as many as `fits` counts in) and holds several chunks of a step.
"""

import random
from collections import deque
from xml.etree import ElementTree


class Stuck(Exception):
    """No thread block can go on."""


def numbers(rank, item):
    """What rank `rank` contributes to an item."""
    return 1 + (rank * 7919 + item * 104729) % 1000003


class Machine:
    """All GPUs of an algorithm; `memory[gpu][letter]` are lists of numbers, None where there is nothing.

    A connection holds `fits` messages of up to `together` chunks. With `strict`, a message must be received
    by a step that names the same place at both ends.
    """

    def __init__(self, text, fits=1, seed=0, together=1, strict=False):
        root = ElementTree.fromstring(text)
        self.fits, self.random = fits, random.Random(seed)
        self.together, self.strict = together, strict
        self.memory, self.blocks, self.flags, self.fifos, self.sent = [], [], {}, {}, {}
        for gpu in sorted(root.findall("gpu"), key=lambda e: int(e.get("id"))):
            self.memory.append({b: [None] * int(gpu.get(f"{b}_chunks")) for b in "ios"})
            for tb in gpu.findall("tb"):
                key = int(gpu.get("id")), int(tb.get("id"))
                steps = [
                    {k: v if k in ("type", "srcbuf", "dstbuf") else int(v) for k, v in step.attrib.items()}
                    for step in tb.findall("step")
                ]
                ends = {direction: int(tb.get(direction)) for direction in ("send", "recv", "chan")}
                self.blocks.append((key, ends, steps, [0, 0]))
                self.flags[key] = -1

    def run(self):
        """All steps, one message at a time, of any block that can go on."""
        live = [b for b in self.blocks if b[2]]
        while live:
            self.random.shuffle(live)
            if not any([self._go_on(*block) for block in live]):
                raise Stuck
            live = [b for b in live if b[3][0] < len(b[2])]

    def _fifo(self, gpu, ends, direction):
        pair = (gpu, ends["send"]) if direction == "send" else (ends["recv"], gpu)
        return self.fifos.setdefault((*pair, ends["chan"]), deque())

    def _go_on(self, key, ends, steps, at):
        """One message of the current step, if nothing is in the way."""
        gpu, step = key[0], steps[at[0]]
        kind = step["type"]
        if at[1] == 0 and step["depid"] >= 0 and self.flags[gpu, step["depid"]] < step["deps"]:
            return False
        sends, receives = kind in ("s", "rcs", "rrs", "rrcs"), kind in ("r", "rcs", "rrc", "rrs", "rrcs")
        if sends and len(self._fifo(gpu, ends, "send")) >= self.fits:
            return False
        if receives and not self._fifo(gpu, ends, "recv"):
            return False
        count = max(1, min(self.together, step["cnt"] - at[1]))
        message, named = [None] * count, None
        if receives:
            message, named = self._fifo(gpu, ends, "recv").popleft()
            assert len(message) == count
        if self.strict and kind in ("r", "rrc"):
            keys = ("srcbuf", "srcoff", "dstbuf", "dstoff") if kind == "r" else ("dstbuf", "dstoff")
            assert [named[k] for k in keys] == [step[k] for k in keys]
        values = [self._chunk(key, step, at[1] + n, message[n]) for n in range(count)]
        if sends:
            self._fifo(gpu, ends, "send").append((values, step))
            pair = gpu, ends["send"]
            self.sent[pair] = self.sent.get(pair, 0) + count
        at[1] += count
        if at[1] >= max(1, step["cnt"]):
            if step["hasdep"]:
                self.flags[key] = step["s"]
            at[0], at[1] = at[0] + 1, 0
        return True

    def _chunk(self, key, step, within, value):
        """What a step does with one chunk; what it hands on."""
        kind, memory = step["type"], self.memory[key[0]]
        src, dst = step["srcoff"] + within, step["dstoff"] + within
        if kind in ("s", "cpy", "re"):
            value = memory[step["srcbuf"]][src]
        elif kind in ("rrs", "rrc", "rrcs"):
            value += memory[step["srcbuf"]][src]
        if kind == "re":
            value += memory[step["dstbuf"]][dst]
        if kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re"):
            memory[step["dstbuf"]][dst] = value
        return value


def traffic(schedule):
    """Chunks from rank to rank."""
    result = {}
    for t in schedule.transfers:
        if t["src"] != t["dst"]:
            pair = int(t["src"]), int(t["dst"])
            result[pair] = result.get(pair, 0) + int(t["count"])
    return result
