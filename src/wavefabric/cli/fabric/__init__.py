"""`wavefabric fabric`: fabrics shown and imported, routes over them, and links measured.

A module for each command, imported when one is asked for; no other command imports them.
"""
