"""Facts that planning asks for: ranges over a tile, signs, fills, sizes and prices.

In: terms, equations. Out: facts; changes nothing.
"""
