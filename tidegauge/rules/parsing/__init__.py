"""Parsing of text files into typed records, with rejects by kind."""
