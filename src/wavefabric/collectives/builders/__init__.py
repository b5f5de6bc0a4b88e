"""Build schedules of collective operations: one function per algorithm, one module per family.

`collectives.registry` lists the functions by name. Modules here import only `wavefabric.base` and the parent
package's `schedule`, `conditions`, `structure` and `sizes`.
"""
