"""Plans circuits that outlive rounds: `plan` decides which change when, by `search`. Imports `photonic`."""
