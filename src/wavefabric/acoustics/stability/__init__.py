"""How long a time step may be: bounds, trial steps, and the energy balance of a run.

May import `problem`, `choose_stages`, `threads`, `solver`, `parallel` and `lifecycle`; takes a `Problem`
alone.
"""
