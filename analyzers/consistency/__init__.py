"""Whether features served online equal the ones computed offline: pairs of rows, and what they show."""
