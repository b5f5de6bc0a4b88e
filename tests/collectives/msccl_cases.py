"""MSCCL algorithms written by hand, as other programs write them."""

#: A step in short: type, source, destination, count, (tb, step) to wait for, and "*" if others wait for it.
NONE = ("i", -1)


def step(number, kind, src=NONE, dst=("o", -1), cnt=1, wait=(-1, -1), hasdep=0):
    """One step's XML."""
    return (
        f'<step s="{number}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1]}" dstbuf="{dst[0]}" '
        f'dstoff="{dst[1]}" cnt="{cnt}" depid="{wait[0]}" deps="{wait[1]}" hasdep="{hasdep}"/>'
    )


def block(number, send, recv, steps, chan=0):
    """A thread block; `steps` are arguments of `step` without the number, the last optionally a dict."""
    lines = []
    for n, inputs in enumerate(steps):
        *plain, last = inputs
        more = last if isinstance(last, dict) else {}
        lines.append(step(n, *(plain if more else inputs), **more))
    return f'<tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">' + "".join(lines) + "</tb>"


def algo(coll, gpus, chunks, inplace=0, proto="Simple", channels=1, more=""):
    """An algorithm; `gpus` are (chunks of i, o and s, list of blocks)."""
    parts = [
        f'<gpu id="{g}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">{"".join(blocks)}</gpu>'
        for g, ((i, o, s), blocks) in enumerate(gpus)
    ]
    return (
        f'<algo name="by hand" proto="{proto}" nchannels="{channels}" nchunksperloop="{chunks}" '
        f'ngpus="{len(gpus)}" coll="{coll}" inplace="{inplace}" {more}>' + "".join(parts) + "</algo>"
    )


def exchange():
    """All-reduce of two GPUs in place: halves are exchanged and added, and the sums exchanged."""
    gpus = []
    for g in range(2):
        mine, other = ("i", g), ("i", 1 - g)
        steps = [("s", other, other), ("rrc", mine, mine), ("s", mine, mine), ("r", other, other)]
        gpus.append(((2, 0, 0), [block(0, 1 - g, 1 - g, steps)]))
    return algo("allreduce", gpus, 2, 1, more='outofplace="0" minBytes="0" maxBytes="134217728"')


def fused_ring(ranks, proto="Simple"):
    """All-reduce around a ring, each GPU one block of receives that send on."""
    gpus = []
    for g in range(ranks):
        at = [("i", (g - k) % ranks) for k in range(2 * ranks - 1)]
        steps = [("s", at[0], at[0])]
        steps += [("rrs", at[k], at[k]) for k in range(1, ranks - 1)]
        steps.append(("rrcs", at[ranks - 1], at[ranks - 1]))
        steps += [("rcs", at[k], at[k]) for k in range(ranks, 2 * ranks - 2)]
        steps.append(("r", at[2 * ranks - 2], at[2 * ranks - 2]))
        gpus.append(((ranks, 0, 0), [block(0, (g + 1) % ranks, (g - 1) % ranks, steps)]))
    return algo("allreduce", gpus, ranks, 1, proto)


def out_of_place():
    """All-reduce of two GPUs from input to output, with a nop, a residual addition and copies."""
    gpus = []
    for g in range(2):
        blocks = [
            block(0, 1 - g, -1, [("s", ("i", 0), ("s", 0), {"cnt": 2, "hasdep": 1})]),
            block(1, -1, 1 - g, [("r", NONE, ("s", 0), {"cnt": 2, "hasdep": 1})]),
            block(
                2,
                -1,
                -1,
                [
                    ("cpy", ("i", 0), ("o", 0), {"cnt": 2}),
                    ("nop", {"cnt": 0, "wait": (0, 0)}),
                    ("re", ("s", 0), ("o", 0), {"cnt": 2, "wait": (1, 0)}),
                    ("ra", ("i", 0), ("o", 0)),
                ],
            ),
        ]
        gpus.append(((2, 2, 2), blocks))
    return algo("allreduce", gpus, 2)


def swap():
    """Two GPUs exchange the same chunk: what is sent is overwritten before the peer receives it."""
    gpus = [((1, 0, 0), [block(0, 1 - g, 1 - g, [("s", ("i", 0)), ("r", NONE, ("i", 0))])]) for g in range(2)]
    return algo("custom", gpus, 1, 1)


def early_sends(number, proto):
    """Two GPUs that both send so many chunks before they receive any."""
    gpus = []
    for g in range(2):
        steps = [("s", ("i", n)) for n in range(number)] + [("r", NONE, ("o", n)) for n in range(number)]
        gpus.append(((number, number, 0), [block(0, 1 - g, 1 - g, steps)]))
    return algo("custom", gpus, number, 0, proto)


def hierarchical(channels=4):
    """All-gather of four GPUs out of place, as programs for two sockets do it: what comes over goes on."""
    gpus = []
    for g in range(4):
        near, far = g ^ 1, g ^ 2
        blocks = []
        for c in range(channels):
            mine, own = ("i", c), ("o", channels * g + c)
            got = [("r", NONE, ("o", channels * from_ + c)) for from_ in (near, near ^ 2)]
            on = [("s", mine), ("rcs", NONE, ("o", channels * far + c))]
            over = [("s", mine), ("cpy", mine, own)]
            for send, recv, steps in ((-1, near, got), (near, far, on), (far, -1, over)):
                blocks.append(block(len(blocks), send, recv, steps, c))
        gpus.append(((channels, 4 * channels, 0), blocks))
    return algo("allgather", gpus, 4 * channels, channels=channels, more='outofplace="1"')


def halves(channels=4):
    """All-reduce of four GPUs in place: halves among neighbours, sums with the far one through scratch."""
    gpus = []
    for g in range(4):
        near, far, side = g ^ 1, g ^ 2, g % 2
        blocks = []
        for c in range(channels):
            mine, other = ("i", 2 * c + side), ("i", 2 * c + 1 - side)
            first = [("s", other, NONE, {"hasdep": 1}), ("rrc", mine, mine, {"hasdep": 1})]
            last = [("s", mine, NONE, {"wait": (3 * c + 2, 2)}), ("r", NONE, other, {"wait": (3 * c, 0)})]
            scratch = ("s", c)
            across = [
                ("s", mine, NONE, {"wait": (3 * c, 1)}),
                ("r", NONE, scratch),
                ("re", scratch, mine, {"hasdep": 1}),
            ]
            blocks.append(block(len(blocks), near, near, first, 2 * c))
            blocks.append(block(len(blocks), near, near, last, 2 * c + 1))
            blocks.append(block(len(blocks), far, far, across, 2 * c))
        gpus.append(((2 * channels, 0, channels), blocks))
    return algo("allreduce", gpus, 2 * channels, 1, channels=2 * channels)
