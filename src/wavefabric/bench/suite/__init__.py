"""All benchmarks of one machine in sequence: parts, their processes, records and report.

`parts` lists the commands, `run` starts them one after the other, `record` says what is done, `report` puts
results together. May import what `wavefabric.bench` may.
"""
