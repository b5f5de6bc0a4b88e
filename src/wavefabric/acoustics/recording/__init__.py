"""What a run records: sampled each step, gathered over ranks, and given to a sink.

`recorder` → `sampling` → `delivery` → `sinks`. May import `problem`, `lifecycle`, and the
solver's stages that it reads fields from.
"""
