"""HiGHS as a process of its own, which can be stopped: a model in, an answer out, as arrays."""

from __future__ import annotations

import io
import signal
import sys

import numpy as np

from wavefabric.system.processes import die_with_parent


def main() -> None:
    """Solve the model on standard input. Status 0: `values` satisfies it; 2: nothing does; else not decided.

    HiGHS: Huangfu & Hall 2018, doi:10.1007/s12532-017-0130-5.
    """
    die_with_parent(signal.SIGKILL)
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    model = np.load(io.BytesIO(sys.stdin.buffer.read()))
    size = model["upper"].size
    rows = csr_array((model["data"], model["indices"], model["indptr"]), shape=(model["low"].size, size))
    options = {} if np.isinf(model["time_limit"]) else {"time_limit": float(model["time_limit"])}
    result = milp(
        np.zeros(size),
        constraints=LinearConstraint(rows, model["low"], model["high"]),
        integrality=np.ones(size),
        bounds=Bounds(model["lower"], model["upper"]),
        options=options,
    )
    values = np.zeros(0) if result.x is None else np.rint(result.x)
    answer = io.BytesIO()
    np.savez(answer, status=np.array(result.status), values=values)
    sys.stdout.buffer.write(answer.getvalue())


if __name__ == "__main__":
    main()
