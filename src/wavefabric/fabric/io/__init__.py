"""Fabrics as TOML files: `files` loads and saves, `tables` says what a file may hold, `writing` writes it.

`importers` read what machines say about themselves. Imports the fabrics (electrical, photonic) alone.
"""
