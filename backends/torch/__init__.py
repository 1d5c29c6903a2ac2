"""The torch back end: a plan as plain Python that imports torch alone."""
