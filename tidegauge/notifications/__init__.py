"""Telling people of incidents: what is said, to whom, once."""
