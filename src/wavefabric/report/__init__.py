"""One page of HTML about any result: what was run, whether it worked, how fast it was, and its figures.

A module for each kind of result makes the content (`content.Content`) of its page; templates/ is how it looks.
Imports everything below `cli` and above no one but it: `bench` and the rest know no pages.
"""

from wavefabric.lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"page": ("Report", "write_report")})
