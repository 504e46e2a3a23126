"""Anomaly detectors, decision rules and monitors."""
