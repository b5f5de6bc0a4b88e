"""Define the options of `wavefabric bench`; the module of a benchmark is imported only when it runs."""
