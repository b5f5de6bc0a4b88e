"""Benchmark a user's machine: time per step, exchanges and solver rates; `app` has the commands.

Each benchmark is a module with ``run(...)`` (a dict that JSON accepts; `InputError` for an invalid option, or
a problem that does not fit), ``table(result)`` and ``plot(result, path)``, imported only when it runs. They
use `common`, `own_process`, `ultrasound_cases` and `kwave_program`, a peer to compare with.
"""
