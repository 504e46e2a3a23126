"""Rules of the Griffin DSL as named steps of SQL: one module for each kind of rule."""

from analyzers.griffin.lowering.entry import lower
from analyzers.griffin.lowering.matching import matched_condition

__all__ = ["lower", "matched_condition"]
