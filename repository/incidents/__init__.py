"""Incidents: group anomalies, explain them, find their causes, apply user labels."""
