"""Core abstractions: analyzers, mergeable states and metrics."""
