"""Build the tasks and communication calls of one training iteration, simulate them, and count the memory.

Begin with `simulate`. Imports models, gpu and strategies.
"""
