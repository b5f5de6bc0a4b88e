"""Hold what every other package uses: errors, units, files, results, and access to the machine.

May import no other package.
"""
