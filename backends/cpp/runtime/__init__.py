"""The helpers of emitted files that need torch alone: modules whose source is what is written."""
