"""Runs one MoE layer of a scenario on the machine at hand, random weights, beside what the planner predicts for it."""
