"""Run, check and time schedules on real ranks, and compare them with predictions.

Imports all packages below it (exchange, fabric for costs, collectives, device, results) but no benchmark.
"""
