"""Tables and figures of papers on interconnects of light, a script each.

They import `wavefabric` and `papers.common`.
"""
