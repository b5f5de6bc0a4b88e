"""A tuner plugin for NCCL: its choices measured between ranks, and the fastest in a library that it loads."""
