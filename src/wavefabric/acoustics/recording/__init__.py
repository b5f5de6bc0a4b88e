"""Records a run: samples fields at each time step, gathers them from all ranks, passes them to a sink.

`recorder` → `sampling` → `delivery` → `sinks`. May import `problem`, `lifecycle`, and the solver's stages,
whose fields it reads.
"""
