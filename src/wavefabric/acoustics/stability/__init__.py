"""How long a time step may be: bounds, trial steps, and the energy balance of a run.

May import `acoustics.problem`, `build`, `solver`, `parallel` and `recording`; works on a `Problem` alone.
"""
