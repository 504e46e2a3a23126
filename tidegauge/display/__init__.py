"""Display of results: HTML cards for notebooks, data frames, progress bars."""
