"""Lowering of Griffin rules to named SQL steps: one module for each rule type."""

from tidegauge.griffin.lower.entry import lower
from tidegauge.griffin.lower.matching import matched_condition

__all__ = ["lower", "matched_condition"]
