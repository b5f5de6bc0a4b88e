"""Light in multimode fibre, ultrasound in tissue, collective communication and the fabrics between GPUs."""

__version__ = "0.1.0"
