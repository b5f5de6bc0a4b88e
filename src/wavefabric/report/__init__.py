"""One page of HTML about any result: what was run, whether it worked, how fast it was, and its figures.

A module for each kind of result makes the `content.Content` of its page; templates/ is how that looks.
Imports everything below it but `bench`; only `cli` imports it.
"""

from wavefabric.lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"page": ("ReportPages", "write_report")})
