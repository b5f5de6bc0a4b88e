"""Light in a multimode fibre: profile, modes, coupling, signals, integrators, links."""
