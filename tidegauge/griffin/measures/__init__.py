"""Kinds of Griffin rules, each written as SQL steps and as an analyzer with a mergeable state."""
