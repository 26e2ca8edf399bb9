"""Bytes that each GPU sends in a collective, and their time. Latency is part of the layer's fixed cost."""

from __future__ import annotations


def all_reduce_bytes(message_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce: ``2 (n - 1) / n`` of the message."""
    return 2.0 * (ranks - 1) / ranks * message_bytes


def all_gather_bytes(message_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends so that all hold the whole message of ``message_bytes``: ``(n - 1) / n`` of it."""
    return (ranks - 1) / ranks * message_bytes


def all_to_all_bytes(tokens_per_rank: float, copies: float, token_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends when every token goes to ``copies`` ranks at random, itself included."""
    return tokens_per_rank * copies * token_bytes * (ranks - 1) / ranks


def distinct_ranks(top_k: int, ranks: int) -> float:
    """Expected number of distinct ranks that the k experts of a token lie on (experts spread evenly)."""
    return ranks * (1.0 - (1.0 - 1.0 / ranks) ** top_k)
