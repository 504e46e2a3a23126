"""Walks of a user who moves in: the first steps of other tools, run by them, beside the same in ours."""
