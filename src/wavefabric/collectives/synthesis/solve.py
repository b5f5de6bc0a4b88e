"""Solve models with two solvers at once: CP-SAT and HiGHS, which are good at different proofs."""

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

from wavefabric.base.errors import MissingExtra
from wavefabric.base.system.processes import die_with_parent
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.model import Model

#: Seconds that CP-SAT runs alone before HiGHS starts too, and its number of workers in that time.
_ALONE, _WORKERS = 2.0, 2
_PAUSE = 0.02
#: Number of variables above which a model is not even written down.
TOO_MANY = 1_500_000
#: Seconds after its deadline at which a solver that is still running is stopped.
_GRACE = 0.5
#: Seconds per variable that CP-SAT takes to start, and to notice that its time is over.
_NOTICE = 4e-6


@dataclass(frozen=True)
class Answer:
    """Holds a solver's answer; ``feasible``: True with values, False if infeasible, None if undecided."""

    feasible: bool | None
    values: np.ndarray | None
    solver: str


def decide(model: Model, deadline: float) -> Answer:
    """Solve a model by ``deadline``, a time of `deadline.now`; `OutOfTime` if no solver can start by then.

    CP-SAT starts alone with two workers, as most models are easy for it. After two seconds it is restarted
    with one worker, beside HiGHS. Ctrl-C stops both within a fraction of a second.
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
    """Return the first solver's answer that decides the model, or an undecided one; stop all solvers."""
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
    """Runs CP-SAT in a thread, without its handling of Ctrl-C, which would swallow the signal."""

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
        #: ``deadline``, or ``seconds`` after the model was written down if that is earlier.
        self.deadline = min(deadline, clock.now() + seconds)
        left = self.deadline - clock.now()
        if math.isfinite(left):
            limits.max_time_in_seconds = max(left, 1e-3)
        # In a separate thread: Ctrl-C reaches the thread that waits.
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
        # A solver that has not started yet ignores a stop, so repeat it until the solver ends.
        while not self.answer.done():
            self._solver.stop_search()
            wait([self.answer], _PAUSE)


def _cp_sat_model(cp_model: Any, model: Model, deadline: float) -> tuple[Any, list[Any]]:
    """Translate ``model`` for the solver CP-SAT; return the result, and its variables in the same order."""
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
    """Runs HiGHS in a process, which can be killed at any time."""

    def __init__(self, model: Model, deadline: float):
        self._model = model
        self._content = pickle.dumps((model.arrays(), max(deadline - clock.now(), 0.1)))
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import highs; highs()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C at a terminal reaches only this process
        )
        self.answer = ThreadPoolExecutor(1).submit(self._solve)

    def _solve(self) -> Answer:
        output = self._process.communicate(self._content)[0]
        status, solution = (None, None) if self._process.returncode else pickle.loads(output)
        # HiGHS computes in floating point, so its solution is checked in whole numbers.
        if solution is not None and self._model.holds(values := np.rint(solution).astype(np.int64)):
            return Answer(True, values, "HiGHS")
        return Answer(False if status == 2 else None, None, "HiGHS")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        wait([self.answer])


def highs() -> None:
    """Solve the pickled model on standard input; write pickled (status, values), status 2 for infeasible.

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
