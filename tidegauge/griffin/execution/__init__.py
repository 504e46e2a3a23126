"""Engine of Griffin jobs: load sources, prepare rules, measure them, and write the results."""
