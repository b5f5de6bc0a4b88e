"""Choose the algorithms of the communication calls of an iteration; compute the time of calls on a fabric.

Begin with times (`Communication`). Imports training.iteration, collectives and fabric.
"""
