"""Commands of `wavefabric fabric`: show and import fabrics, route over them, and measure links."""
