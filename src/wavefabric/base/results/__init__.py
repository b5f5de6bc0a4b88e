"""Store and show results of runs: result files with provenance, locks and figures.

`ResultWriter` and `read_result` do not depend on the physics; `plots` draws an MDM link's result.
May import `files`, `system` and `errors`.
"""

from wavefabric.base.results.file import Data, Result, ResultWriter, Rows, read_result
from wavefabric.base.results.provenance import fingerprint, provenance

__all__ = ["Data", "Result", "ResultWriter", "Rows", "fingerprint", "provenance", "read_result"]
