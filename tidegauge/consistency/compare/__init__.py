"""Comparison of logged with backfilled features: alignment, join, equality, measures."""
