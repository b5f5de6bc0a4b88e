"""Files of users and of other programs, read without trust; output files, written whole or not at all.

May import ``errors``.
"""
