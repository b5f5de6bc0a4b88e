"""Simulate light in multimode fibre, ultrasound in tissue, and collective communication on GPU fabrics."""

__version__ = "0.1.0"
