"""The time of a person's own spec beside other ways to compute it: the clock, the judge, and the rivals."""
