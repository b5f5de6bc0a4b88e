"""How long a time step may be: bounds, the largest eigenvalue, trial steps; and what is watched in a run.

May import `problem`, `choose_stages`, `run_settings`, `solver`, `parallel` and `lifecycle`; takes a `Problem`
alone.
"""
