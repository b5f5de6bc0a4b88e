"""Draws fabrics, schedules and costs; `pictures` writes the files, `scene` computes the layout of circuits.

Times come from costs and plans; `cost_models` computes any that are missing.
"""
