"""Images from what sensors recorded: initial pressures of photoacoustics, by time reversal.

Every run is one of `simulation.simulate`: ranks, devices and checkpoints are as there.
"""
