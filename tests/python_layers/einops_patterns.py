"""Patterns of einops. The tests read this file and never import it."""

from einops import rearrange, reduce, repeat


def patterns(x, y):
    x = rearrange(x, "b t (h d) -> b h t d", h=2)
    return reduce(x, "b h t d -> b t d", "mean") + repeat(y, "d -> b t d", b=x.size(0), t=x.shape[2])
