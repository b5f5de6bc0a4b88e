"""Predicts, before a run, the time of every split of a simulation over the GPUs of a fabric, and picks one.

`plan_runs.py` lists the candidates of a run, `plan.py` chooses. `fibre_step.py` and `ultrasound_step.py`
describe the work of one step of each (`step.py` what both share), `rates.py` how fast a device does this
work, `exchange_times.py` how long exchanges take, `timeline.py` how much of an exchange is hidden under
computation. Imports acoustics, optics, fabric and what they may import.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "plan_runs": ("FibreRun", "RunPlanOptions", "plan_fibre", "plan_file", "plan_ultrasound"),
        "plan": ("Candidate", "RunPlan"),
        "rates": ("SolverRates", "load_rates"),
    },
)
