"""What a link should give, without a run: nonlinear interference, noise, Q² by mode, channel and span.

May import ``fibre``, ``signal`` and ``propagation``.
"""
