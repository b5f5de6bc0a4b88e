"""Search for strategies: `search.search`, with Markov chains (`markov`) and the exact optimum of a `chain`.

Imports graphs, strategies, tasks, engine and memory; uses fabrics only through `engine.CallTimes`.
"""
