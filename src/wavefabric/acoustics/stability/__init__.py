"""Finds stable time steps, by bounds, largest eigenvalue and trial steps; checks fields during a run.

May import `problem`, `choose_stages`, `run_settings`, `solver`, `parallel` and `lifecycle`; its input is a
`Problem` only.
"""
