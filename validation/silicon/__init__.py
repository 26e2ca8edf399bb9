"""Predictions held against the silicon table that NVIDIA's aiconfigurator ships (TTFT and TPOT of served runs)."""
