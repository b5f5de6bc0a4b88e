"""What a user measures on his own machine: steps, exchanges, scaling; each module is a command.

Each has ``run(...)`` (a dict that JSON takes), ``table(result)`` and ``plot(result, path)``. May import
everything but `cli`.
"""
