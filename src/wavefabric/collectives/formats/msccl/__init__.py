"""MSCCL algorithm files (XML): written from schedules, read, and checked for races and deadlocks."""
