"""Fixtures: the content of a result of a link, and a file of it."""

from mdm_result import payload, result_file

__all__ = ["payload", "result_file"]
