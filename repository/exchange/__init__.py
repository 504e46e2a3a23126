"""Import of histories from other tools, and export to them."""
