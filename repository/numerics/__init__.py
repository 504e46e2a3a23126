"""Numerical routines for detectors, on arrays. No SQL."""
