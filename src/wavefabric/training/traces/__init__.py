"""What was simulated, for other programs and for the eye: Chrome/Perfetto traces, Chakra traces, pictures.

Chakra execution traces are read too: what others recorded runs on our fabrics."""
