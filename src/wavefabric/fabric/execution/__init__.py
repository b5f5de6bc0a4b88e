"""Runs, checks and times schedules on real ranks, and compares them with predictions.

Imports all packages below it (exchange, fabric for costs, collectives, device, results) but no benchmark.
"""
