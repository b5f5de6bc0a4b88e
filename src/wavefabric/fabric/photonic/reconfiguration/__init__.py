"""Plans circuits that stay up for several rounds: `plan` decides, by `search`, which circuits change when."""
