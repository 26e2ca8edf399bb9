"""Scenarios side by side: their figures, what differs, and which group of inputs each delta comes from."""

from planner.compare.compare import MOST, compare, unique_labels
from planner.compare.differences import differing
from planner.compare.groups import GROUPS, Group, differing_groups, group_of, union_name
from planner.compare.records import Comparison, Delta, Difference, Merge, Pair, Part, Side, Step
from planner.compare.shapley import Values, merged, parts_of

__all__ = [
    "GROUPS",
    "MOST",
    "Comparison",
    "Delta",
    "Difference",
    "Group",
    "Merge",
    "Pair",
    "Part",
    "Side",
    "Step",
    "Values",
    "compare",
    "differing",
    "differing_groups",
    "group_of",
    "merged",
    "parts_of",
    "union_name",
    "unique_labels",
]
