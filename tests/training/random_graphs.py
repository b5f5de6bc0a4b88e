"""Random tasks of workers that depend on one another through calls alone, and a fabric for them."""

from hypothesis import strategies as st

from wavefabric.training.iteration.task_graph import Call, TaskGraph


class Wire:
    """5 µs and 1 GB/s for each call."""

    concurrent = True

    def seconds(self, calls):
        return max(
            5e-6 + sum(size for *_, size in c.messages or ((0, 0, 1),)) * c.bytes * 1e-9 for c in calls
        )


@st.composite
def graphs(draw):
    """A graph, and the GPUs of each worker."""
    workers, each = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    gpus = [tuple(range(w * each, (w + 1) * each)) for w in range(workers)]
    graph = TaskGraph(workers, program=[[] for _ in range(workers)])
    for number in range(draw(st.integers(1, 14))):
        ports, call = (
            draw(_calls(gpus)) if draw(st.booleans()) else ((draw(st.integers(0, workers - 1)),), None)
        )
        allowed = [task for task in range(number) if _may_wait(graph, task, ports, call)]
        waits = draw(st.lists(st.sampled_from(allowed), max_size=3, unique=True)) if allowed else []
        part = draw(st.integers(-1, 2))
        if call is None:
            kind = draw(st.sampled_from(("forward", "backward", "update")))
            seconds = draw(st.floats(0, 1e-3))
            graph.program[ports[0]].append(
                graph.compute(kind, f"task {number}", ports[0], seconds, waits, part)
            )
        else:
            graph.communicate(f"task {number}", call, ports, waits, part)
    return graph, gpus


@st.composite
def _calls(draw, gpus):
    everyone = [gpu for members in gpus for gpu in members]
    nbytes = draw(st.floats(1, 1e6))
    if len(everyone) == 1:
        return (0,), None
    if draw(st.booleans()):
        pairs = st.tuples(st.sampled_from(everyone), st.sampled_from(everyone)).filter(lambda p: p[0] != p[1])
        sent = draw(st.lists(st.tuples(pairs, st.floats(0.5, 9)), min_size=1, max_size=4))
        messages = tuple((a, b, size) for (a, b), size in sent)
        ends = tuple(sorted({end for a, b, _ in messages for end in (a, b)}))
        return _ports(gpus, ends), Call("messages", (ends,), nbytes, "layer-to-layer", messages)
    groups = tuple(gpus) if len(gpus[0]) > 1 and draw(st.booleans()) else (tuple(everyone),)
    groups = groups[: draw(st.integers(1, len(groups)))]
    name = draw(st.sampled_from(("all-reduce", "all-gather", "reduce-scatter", "all-to-all")))
    purpose = draw(st.sampled_from(("gradients", "tensor", "parameters")))
    return _ports(gpus, [gpu for group in groups for gpu in group]), Call(name, groups, nbytes, purpose)


def _ports(gpus, members):
    return tuple(worker for worker, mine in enumerate(gpus) if set(mine) & set(members))


def _may_wait(graph, task, ports, call):
    other = graph.call[task]
    if other is None:
        return graph.worker[task] in ports
    return bool(set(graph.ports[task]) & set(ports)) if call is None else bool(other.gpus & call.gpus)
