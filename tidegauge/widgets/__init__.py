"""The dashboard: one widget, drawn by a script of ours, with what it shows asked for piece by piece."""
