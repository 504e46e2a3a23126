"""Name resolution and type checks of parsed Griffin rules."""
