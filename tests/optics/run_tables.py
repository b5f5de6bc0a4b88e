"""Merge the tables of run files."""


def merged(base, changes):
    """``base`` with tables of ``changes`` merged in."""
    out = dict(base)
    for key, value in changes.items():
        out[key] = merged(out.get(key) or {}, value) if isinstance(value, dict) else value
    return out


def without_none(table):
    """A table without the keys that a test took away."""
    kept = {key: without_none(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {key: value for key, value in kept.items() if value is not None}
