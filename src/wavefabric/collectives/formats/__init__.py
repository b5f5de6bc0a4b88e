"""Schedules as files: our JSON, and MSCCL's XML in msccl/. Imports the schedule, its proof, and files."""
