"""Schedules and measurements on real ranks: run, checked, timed, and compared with their prediction.

Imports everything below it but no benchmark: exchange, fabric (costs), collectives, device, results.
"""
