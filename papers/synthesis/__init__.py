"""Published topologies: our schedules beside those of other synthesisers."""
