"""`wavefabric collective`: schedules made, proved, costed, drawn, exported and run.

A module for each command, imported when one is asked for; no other command imports them.
"""
