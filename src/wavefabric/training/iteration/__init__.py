"""One training iteration: calls between layers, tasks, their simulation, memory; begin with `simulate`.

Imports models, gpu and strategies.
"""
