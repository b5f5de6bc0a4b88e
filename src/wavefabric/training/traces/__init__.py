"""Export simulated iterations as Chrome/Perfetto traces, Chakra traces and pictures.

Chakra execution traces from other programs can also be read, and simulated on Wavefabric's fabrics.
"""
