"""Build an HTML page about any result: what was run, whether it worked, how fast it was, and its figures.

A module per kind of result builds the `content.Content` of its page; templates/ define the layout. Imports
all packages below it but `bench`; only `cli` imports it.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"page": ("ReportPages", "write_report")})
