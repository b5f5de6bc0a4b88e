"""Routes of circuits over the grid of tiles, such that few share an edge, and lower bounds on how few.

`routes.route` chooses among row–column, k shortest, rip-up and reroute, and integer programming.
May import `photonic` (fabric, tile grid, budget).
"""
