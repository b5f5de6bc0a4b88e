"""Stability of the time step: bounds, largest eigenvalue and trial steps; checks during a run.

May import `problem`, `choose_stages`, `run_settings`, `solver`, `parallel` and `lifecycle`; its input is a
`Problem` only.
"""
