"""Benchmark a user's machine: time per step, exchanges and solver rates; each command is a module.

Such a module has ``run(...)`` (a dict that JSON accepts; `InputError` for an invalid option, or a problem
that does not fit), ``table(result)`` and ``plot(result, path)``. They use `common`, `own_process`,
`ultrasound_cases` and `kwave_program`, a peer to compare with. May import everything but `cli`.
"""
