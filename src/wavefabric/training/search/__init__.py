"""Search for fast parallelisation strategies: by Markov chains (`markov`), or exact for a `chain` of layers.

Begin with `search.search`. Uses fabrics only through the times of calls (`engine.CallTimes`).
"""
