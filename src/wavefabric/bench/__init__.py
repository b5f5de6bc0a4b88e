"""What a user measures on his own machine: steps, exchanges, scaling; a module for each command.

It has ``run(...)`` (a dict that JSON takes; `InputError` for an option that is not allowed, or what does not
fit), ``table(result)`` and ``plot(result, path)``. May import everything but `cli`.
"""
