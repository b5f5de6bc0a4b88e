"""Search for fast strategies: with Markov chains (`markov`), or exactly for layers in a chain (`chain`).

Begin with `search.search`. Uses fabrics only through the times of calls (`engine.CallTimes`).
"""
