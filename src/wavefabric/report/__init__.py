"""Build an HTML page about any result: what was run, whether it worked, how fast it was, and its figures.

Each kind of result has a module that builds the `content.Content` of its page; templates/ define the layout.
May import every package but `cli`, which alone imports this one.
"""

from wavefabric.base.lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"page": ("ReportPages", "write_report")})
