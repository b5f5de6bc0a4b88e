"""What a user measures on his own machine: steps, exchanges, scaling; a module for each command.

Such a module has ``run(...)`` (a dict that JSON takes; `InputError` for an option that is not allowed, or
what does not fit), ``table(result)`` and ``plot(result, path)``; `common`, `own_process`, `ultrasound_cases`,
`ultrasound_ranks` and the peers to compare with (`plain_rk4ip`, `kwave_program`, `no_exchange`)
serve them. May import everything but `cli`.
"""
