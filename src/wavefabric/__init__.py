"""Simulate light in multimode fibre, ultrasound in tissue, and collective communication on GPU fabrics."""

from wavefabric.base.former_names import keep_former_names

__version__ = "0.1.0"

keep_former_names()
