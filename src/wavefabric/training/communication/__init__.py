"""Calls of a training iteration on a fabric: which algorithm serves each, how long they take together.

Rooms of one file each: algorithms, placed (schedules on given GPUs), line (time of any size), times, batches.
Imports training.calls, collectives and fabric only.
"""
