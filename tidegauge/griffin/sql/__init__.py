"""SQL that users write in rules, read as text."""
