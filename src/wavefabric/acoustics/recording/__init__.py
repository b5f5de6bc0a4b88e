"""Recording of a run: fields are sampled each step, gathered over ranks, and passed to a sink.

`recorder` → `sampling` → `delivery` → `sinks`. May import `problem`, `lifecycle`, and the solver's stages,
whose fields it reads.
"""
