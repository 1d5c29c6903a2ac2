"""A program cut in programs: what one round makes, what one request makes."""
