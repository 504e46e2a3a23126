"""Measure: data to state to metric."""
