"""Lower bounds that no schedule can beat: the number of rounds, and bytes over the tightest cut.

Imports the fabrics (electrical, photonic) and collectives.
"""
