"""Streams: what they bring is kept by windows of time, and windows are measured as batches are."""
