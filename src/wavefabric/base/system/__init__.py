"""Access the machine and this process: memory, threads, GPU links, signals, caches, messages on stderr.

May import ``errors``.
"""
