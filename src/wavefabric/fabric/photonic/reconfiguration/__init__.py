"""Circuits that outlive rounds: `plan` says which stay or change when, by `search`. Imports `photonic`."""
