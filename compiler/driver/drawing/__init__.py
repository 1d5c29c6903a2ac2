"""Pictures of a program: the domains of its tensors, the tiles of its kernels, its plan as a graph, weights on data."""
