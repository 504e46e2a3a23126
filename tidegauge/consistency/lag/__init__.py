"""Estimation of the write lag that makes logged and backfilled features most consistent."""
