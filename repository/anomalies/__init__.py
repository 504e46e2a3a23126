"""Detectors score, rules decide."""
