"""Streaming: rows are stored by time window, and windows are measured like batches."""
