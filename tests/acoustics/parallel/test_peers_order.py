"""Whether spectra that other ranks put here are in order with the passes here, whoever is faster."""

import numpy as np
import pytest
from fake_gpus import EmulatedGpu, together
from order_of_ranks import Event, order
from rank_steps import CASES, noise_problem

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.parallel.fused_layouts import OneSidedLayout
from wavefabric.acoustics.solver.step import Step

#: Spectra that a kernel along z puts into planes, but for those that are told their number.
_PUTS = {"z_gradient": (0, 1), "z_translate": (2,)}
#: Where other kernels are told the number, counted from the end of their arguments.
_NUMBER = {"y_scatter": -4, "z_divergence": -3, "z_scale": -3}


class _Recording(EmulatedGpu):
    """Keeps what is launched."""

    def __init__(self, *inputs):
        super().__init__(*inputs)
        self.launched = []

    def launch(self, function, grid, block, arguments, shared=0):
        if self._recorded is None:
            self.launched.append((function.name, grid, list(arguments)))
        super().launch(function, grid, block, arguments, shared)


def events_of(stages, launched, rank, ranks):
    """What the launches of a rank read or write here, put there, announce and wait for.

    Arrays are (way, number): columns (0) and planes (1) of three spectra.
    """
    layout = stages.layout
    arrays = {(w, n): a for w, each in enumerate((layout._columns, layout._flat)) for n, a in enumerate(each)}
    flags = {layout._flags.local[w, n].ctypes.data: (w, n) for w in range(2) for n in range(3)}
    others = [other for other in range(ranks) if other != rank]

    def touched(arguments):
        inputs = [a for a in arguments if isinstance(a, np.ndarray)]
        # Structures hold addresses.
        words = [a.ctypes.data for a in inputs] + [
            w for a in inputs if a.dtype == np.uint64 for w in a.tolist()
        ]
        return {
            position
            for position, array in arrays.items()
            if any(array.ctypes.data <= word < array.ctypes.data + array.nbytes for word in words)
        }

    events = []
    for name, grid, arguments in launched:
        if name == "await_ranks":
            position = flags[arguments[0].ctypes.data]
            events.append(Event((set(), ()), waits=tuple((other, position) for other in others)))
            continue
        numbers = _PUTS.get(name, ())
        if name in _NUMBER:
            first = int(arguments[_NUMBER[name]])
            numbers = tuple(range(first, first + (1 if name == "y_scatter" else ([*grid, 1, 1])[2])))
        variant = int(name != "y_scatter")
        puts = tuple((variant, number) for number in numbers)
        # A pass that puts reads the spectra of its numbers, but that of the gradient the first alone.
        read = {(1 - variant, number) for number in ((0,) if name == "z_gradient" else numbers)}
        events.append(Event((read if puts else touched(arguments), puts), announces=puts))
    return events


def races(programs):
    """Puts of a rank that are in no order with what another does with that spectrum."""
    before, result = order(programs), []
    for owner, own in enumerate(programs):
        for sender, sent in enumerate(programs):
            for i, (_, puts) in enumerate(event.what for event in sent if sender != owner):
                for j, (here, _) in enumerate(event.what for event in own):
                    both = here.intersection(puts)
                    if both and not before(sender, i, owner, j) and not before(owner, j, sender, i):
                        result.append((sender, i, owner, j, both))
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "absorption", "nonlinear", "seed"),
    [((10, 6, 4), *CASES[1]), ((10, 7, 5), *CASES[3])],
)
def test_spectra_are_put_where_nobody_works(transports, monkeypatch, shape, absorption, nonlinear, seed):
    """In steps with sources made anew, absorption, and velocities at the points of the pressure."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    problem = noise_problem(shape, absorption, nonlinear, seed)

    def work(comm):
        stages = make_stages(comm.device, problem, np.float64, comm=comm)
        assert isinstance(stages.layout, OneSidedLayout)
        step, out = Step(stages), comm.device.empty(stages.coefficients.shape, np.float64)
        for number in range(4):
            step.take(number)
            for axis in range(3):
                factor = comm.device.asarray(np.ones(stages.coefficients.half_shape[2 - axis], complex))
                stages.translate(stages.fields.u[axis], axis, factor, out)
        return events_of(stages, comm.device.launched, comm.rank, comm.size)

    programs = together(transports, "p2p", 2, work, make=_Recording)
    assert not races(programs)
    puts = [put for event in programs[0] for put in event.what[1]]
    assert all(puts.count((variant, number)) >= 4 for variant in range(2) for number in range(3))
    # One wait less, and there is a race.
    waits = [i for i, event in enumerate(programs[0]) if event.waits]
    assert any(races([[e for i, e in enumerate(programs[0]) if i != left], programs[1]]) for left in waits)
