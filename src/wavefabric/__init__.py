"""Waves that outgrow one GPU, and the fabric between the GPUs that carries them."""

__version__ = "0.1.0"
