"""Read untrusted files of users and other programs; write output files completely or not at all.

This package may import ``errors``.
"""
