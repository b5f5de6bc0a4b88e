"""One iteration: calls between layers, tasks, the engine that runs them, memory; begin with `simulate`.

Imports models, gpu and strategies.
"""
