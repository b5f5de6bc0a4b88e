"""Read and write schedules: JSON, MSCCL, MSCCL++. Imports the schedule, its proof, and files."""
