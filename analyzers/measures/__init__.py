"""Analyzers by family: counts, sums, moments, quantiles, frequencies, sketches and others."""
