"""Results of rules: judged, kept as verdicts, recorded, and reported."""
