"""Reads and writes fabrics as TOML: `files` loads and saves, `tables` defines the format, `writing` writes.

`importers` read descriptions made by machines. Imports only the fabrics (electrical, photonic).
"""
