"""Benchmarks of a user's own machine measure steps, exchanges and rates; each command is a module.

Such a module has ``run(...)`` (a dict that JSON takes; `InputError` for an option that is not allowed, or
what does not fit), ``table(result)`` and ``plot(result, path)``; `common`, `own_process`, `ultrasound_cases`
and `kwave_program`, a peer to compare with, serve them. May import everything but `cli`.
"""
