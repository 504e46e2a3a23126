"""The repository contract as a test suite, an in-memory repository, and sample measurements."""
