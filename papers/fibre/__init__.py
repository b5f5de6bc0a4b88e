"""Tables and figures of papers on light in fibre, a script each.

They import `wavefabric` and `papers.common`.
"""
