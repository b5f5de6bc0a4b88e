"""Models put to two solvers at once: CP-SAT, and HiGHS, each good at proofs that the other is bad at."""

import math
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.model import Model
from wavefabric.errors import MissingExtra
from wavefabric.system.processes import die_with_parent

#: Seconds that CP-SAT has to itself before HiGHS is started beside it, and its workers then.
_ALONE, _WORKERS = 2.0, 2
_PAUSE = 0.02
#: Variables of a model that is not even written down.
TOO_MANY = 1_500_000
#: Seconds after its deadline at which a solver that has not noticed is ended.
_GRACE = 0.5
#: Seconds a variable that CP-SAT takes to begin, and to notice that its time is over.
_NOTICE = 4e-6


@dataclass(frozen=True)
class Answer:
    """What a solver found: True with values, False if nothing satisfies the model, None if not decided."""

    feasible: bool | None
    values: np.ndarray | None
    solver: str


def decide(model: Model, deadline: float) -> Answer:
    """Solve a model before a time of `deadline.now`; `OutOfTime` if that is before a solver has begun.

    CP-SAT begins alone, as most models are easy for it. After two seconds HiGHS gets one of its workers.
    Ctrl-C stops both within a fraction of a second.
    """
    deadline -= _NOTICE * len(model.upper)
    clock.check(deadline)
    if any(low > 0 for columns, _, low, _ in model.rows if not columns):
        return Answer(False, None, "counting")
    first = _CpSat(model, deadline, _WORKERS, _ALONE)
    answer = _wait([first], first.deadline)
    if answer.feasible is not None or clock.now() >= deadline:
        return answer
    return _wait([_CpSat(model, deadline, _WORKERS - 1), _Highs(model, deadline)], deadline)


def _wait(solvers: "Sequence[_CpSat | _Highs]", deadline: float) -> Answer:
    """The first answer; whatever happens, all are stopped."""
    try:
        pending = {s.answer for s in solvers}
        while pending and (left := deadline + _GRACE - clock.now()) > 0:
            done, pending = wait(pending, left if math.isfinite(left) else None, FIRST_COMPLETED)
            for answer in done:
                if answer.result().feasible is not None:
                    return answer.result()
        return Answer(None, None, "time")
    finally:
        for s in solvers:
            s.stop()


class _CpSat:
    """CP-SAT: its own handling of Ctrl-C would swallow the signal."""

    def __init__(self, model: Model, deadline: float, workers: int, seconds: float = math.inf):
        try:
            from ortools.sat.python import cp_model
        except ImportError as error:
            raise MissingExtra("synthesis of schedules", "schedules") from error
        self._library: Any = cp_model
        self._solver = cp_model.CpSolver()
        limits = self._solver.parameters
        limits.num_workers = workers
        limits.random_seed = 1
        limits.catch_sigint_signal = False
        self._model, self._variables = _cp_sat_model(cp_model, model, deadline)
        #: The deadline given, or so many seconds after the model was written down.
        self.deadline = min(deadline, clock.now() + seconds)
        left = self.deadline - clock.now()
        if math.isfinite(left):
            limits.max_time_in_seconds = max(left, 1e-3)
        # In a thread of its own: Ctrl-C reaches the one that waits.
        self.answer = ThreadPoolExecutor(1).submit(self._solve)

    def _solve(self) -> Answer:
        status = self._solver.solve(self._model)
        if status in (self._library.OPTIMAL, self._library.FEASIBLE):
            values = np.array([self._solver.value(v) for v in self._variables], np.int64)
            return Answer(True, values, "CP-SAT")
        if status == self._library.MODEL_INVALID:
            raise RuntimeError("CP-SAT refused the model")
        return Answer(False if status == self._library.INFEASIBLE else None, None, "CP-SAT")

    def stop(self) -> None:
        # A solver that has not begun yet forgets that it was stopped: say it until it ends.
        while not self.answer.done():
            self._solver.stop_search()
            wait([self.answer], _PAUSE)


def _cp_sat_model(cp_model: Any, model: Model, deadline: float) -> tuple[Any, list[Any]]:
    """The same model for CP-SAT, and its variables."""
    stop, copy = clock.Deadline(deadline), cp_model.CpModel()
    limits = list(zip(model.lower, model.upper, strict=True))
    variables = [copy.new_bool_var("") if pair == (0, 1) else copy.new_int_var(*pair, "") for pair in limits]
    for columns, ks, low, high in model.rows:
        stop.check()
        chosen = [variables[c] for c in columns]
        ones = high == 1 and all(k == 1 for k in ks) and all(limits[c] == (0, 1) for c in columns)
        if ones and low == 1:
            copy.add_exactly_one(chosen)
        elif ones and low <= 0:
            copy.add_at_most_one(chosen)
        else:
            least = int(low) if math.isfinite(low) else cp_model.INT32_MIN
            most = int(high) if math.isfinite(high) else cp_model.INT32_MAX
            copy.add_linear_constraint(cp_model.LinearExpr.weighted_sum(chosen, ks), least, most)
    for column, value in model.hint.items():
        copy.add_hint(variables[column], value)
    return copy, variables


class _Highs:
    """HiGHS in a process, which can be ended at any time."""

    def __init__(self, model: Model, deadline: float):
        self._model = model
        self._content = pickle.dumps((model.arrays(), max(deadline - clock.now(), 0.1)))
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import highs; highs()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at a terminal is ours to pass on
        )
        self.answer = ThreadPoolExecutor(1).submit(self._solve)

    def _solve(self) -> Answer:
        output = self._process.communicate(self._content)[0]
        status, solution = (None, None) if self._process.returncode else pickle.loads(output)
        # HiGHS computes in floating point: what it found is checked in whole numbers.
        if solution is not None and self._model.holds(values := np.rint(solution).astype(np.int64)):
            return Answer(True, values, "HiGHS")
        return Answer(False if status == 2 else None, None, "HiGHS")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        wait([self.answer])


def highs() -> None:
    """A process that solves the arrays of the model on standard input; status 2: nothing satisfies it.

    HiGHS: Huangfu & Hall 2018, doi:10.1007/s12532-017-0130-5.
    """
    die_with_parent(signal.SIGKILL)
    from scipy.optimize import Bounds, LinearConstraint, milp

    (rows, low, high, lower, upper), seconds = pickle.load(sys.stdin.buffer)
    result = milp(
        np.zeros(upper.size),
        constraints=LinearConstraint(rows, low, high),
        integrality=np.ones(upper.size),
        bounds=Bounds(lower, upper),
        options={} if math.isinf(seconds) else {"time_limit": seconds},
    )
    pickle.dump((result.status, result.x), sys.stdout.buffer)
