"""Pictures of fabrics, schedules and costs; `pictures` writes the files, `scene` lays circuit plans out.

Computes nothing that a cost or a plan does not hold. Imports all other packages of `wavefabric.fabric`.
"""
