"""How long a time step may be: bounds, trial steps, and the energy balance of a run.

May import `acoustics.problem`, `choose_stages`, `solver`, `parallel`, `recording`; takes a `Problem` alone.
"""
