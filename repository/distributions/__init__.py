"""Column distributions from stored sketches, distances between them, and drift."""
