"""Routes circuits over the grid of tiles so that few share an edge; computes lower bounds on the overlap.

`routes.route` chooses among row–column, k shortest, rip-up and reroute, and integer programming.
May import `photonic` (fabric, tile grid, budget).
"""
