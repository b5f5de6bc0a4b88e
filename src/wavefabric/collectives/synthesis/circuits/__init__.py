"""Find circuits of an optical network for rounds: known schedules, wavelengths that are free, and a solver.

Imports the other modules of the parent package but `synthesise`, which imports this one.
"""
