"""Notifications: send incidents to sinks, each once."""
