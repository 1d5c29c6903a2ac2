"""The helpers of emitted files that need torch and triton: modules whose source is what is written."""
