"""Before the run: what each way to share a simulation among GPUs takes on a fabric, and which to choose.

`plan.py` has the candidates; `fibre.py` and `ultrasound.py` say what a step of each does, `rates.py` how fast
a device does it, `exchange_times.py` how long exchanges take, `timeline.py` what of them is hidden.
Imports acoustics, optics, fabric and what they may.
"""

from wavefabric.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "files": ("FibreRun", "RunPlanOptions", "plan_fibre", "plan_file", "plan_ultrasound"),
        "plan": ("Candidate", "RunPlan"),
        "rates": ("SolverRates", "load_rates"),
    },
)
