"""Generation: what new positions are, given what was kept of the past, as one more program."""
