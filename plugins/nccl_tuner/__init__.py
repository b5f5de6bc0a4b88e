"""Measures what NCCL can choose between ranks, and writes a plugin that makes it choose the fastest."""
