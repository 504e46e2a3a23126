"""The repository contract as a test suite, and sample measurements."""
