"""Calls of a training iteration on a fabric: the algorithm of each, and how long they take together.

Begin with times (`Communication`). Imports training.iteration, collectives and fabric.
"""
