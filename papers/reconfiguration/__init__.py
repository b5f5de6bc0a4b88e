"""When circuits change: choices beside extremes and published methods."""
