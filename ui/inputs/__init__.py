"""The sidebar: every input of a scenario, preset first, details folded."""
