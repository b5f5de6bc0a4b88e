"""Store results of any run: HDF5 files with provenance, locks on outputs, and the style of figures.

This package may import `files`, `system` and `errors`.
"""

from wavefabric.base.results.file import Data, Result, ResultWriter, Rows, read_result
from wavefabric.base.results.provenance import fingerprint, provenance

__all__ = ["Data", "Result", "ResultWriter", "Rows", "fingerprint", "provenance", "read_result"]
