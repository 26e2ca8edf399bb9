"""The fields of a scenario: one table, and the only ways in for what people type, paste and open.

The command line, the page and the documentation read the same table, set values through the same
:func:`set_path` and refuse a value with the same sentence.
"""

from planner.errors import PlanError
from planner.fields.explain import Fault, explain, faults, refused
from planner.fields.paths import get_path, parse_text, set_path, set_paths, validated
from planner.fields.reading import scenario_from_json
from planner.fields.sentences import ScenarioError, nearest, shown
from planner.fields.table import FieldSpec, field_for, fields, section_descriptions, sections, specs_of
from planner.fields.tree import MAX_BYTES, json_tree

__all__ = [
    "MAX_BYTES",
    "Fault",
    "FieldSpec",
    "PlanError",
    "ScenarioError",
    "explain",
    "faults",
    "field_for",
    "fields",
    "get_path",
    "json_tree",
    "nearest",
    "parse_text",
    "refused",
    "scenario_from_json",
    "section_descriptions",
    "sections",
    "set_path",
    "set_paths",
    "shown",
    "specs_of",
    "validated",
]
