"""Read and write Chakra execution traces (MLCommons; Sridharan et al. 2023, arXiv:2305.14516)."""

from wavefabric.training.traces.chakra.read import read_chakra
from wavefabric.training.traces.chakra.write import write_chakra

__all__ = ["read_chakra", "write_chakra"]
