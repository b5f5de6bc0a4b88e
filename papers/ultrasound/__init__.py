"""Tables and figures of papers on ultrasound, a script each.

They import `wavefabric` and `papers.common`.
"""
