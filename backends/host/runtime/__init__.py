"""The helpers of every emitted file: modules whose source is what is written, see `einc.backends.host.source`."""
