"""Search for strategies: `search.search`; Markov chains (`markov`) and the exact `chain`.

Imports graphs, strategies, tasks, engine and memory; knows fabrics by `engine.CallTimes` alone.
"""
