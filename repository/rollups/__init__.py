"""Roll-ups: metrics of windows and totals, merged from stored states."""
