"""Benchmarks of a user's own machine measure steps, exchanges and rates; each command is a module.

Such a module has ``run(...)`` (a dict that JSON takes; `InputError` for an option that is not allowed, or
what does not fit), ``table(result)`` and ``plot(result, path)``; `common`, `own_process`, `ultrasound_cases`,
`ultrasound_steps` and the peers to compare with (`plain_rk4ip`, `kwave_program`) serve them. May import
everything but `cli`.
"""
