"""Rounds over positions -> states that each position scales and adds to, in tiles or side by side, where their algebra
allows that; what goes in and out are programs whose loops in order are read by `planning.repeated`.
"""
