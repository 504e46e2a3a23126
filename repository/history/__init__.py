"""Metric history: comparisons, versions, calendars, charts, heat maps and plots."""
