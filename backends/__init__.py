"""How a plan runs: one folder for each back end, loaded by name."""
