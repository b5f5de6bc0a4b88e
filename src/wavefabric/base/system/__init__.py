"""Access the machine and this process: memory, threads, GPU links, signals, caches, messages on stderr.

This package may import ``errors``.
"""
