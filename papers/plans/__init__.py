"""What-if tables: steps that `wavefabric plan` predicts for the machines of four papers, a script each.

They import `wavefabric`, `papers.common` and `papers.lumorph.panels`.
"""
