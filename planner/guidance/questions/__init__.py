"""Example questions of capacity planning, each with the scenarios that answer it; answers are computed when asked."""

from __future__ import annotations

from planner.fields.sentences import nearest, shown
from planner.guidance.questions import bits_on_cxl, faster_dram, gpu_experts, one_server
from planner.guidance.questions.base import Answer, Option, Planner, Question

QUESTIONS: tuple[Question, ...] = (
    one_server.QUESTION,
    gpu_experts.QUESTION,
    bits_on_cxl.QUESTION,
    faster_dram.QUESTION,
)


def question(question_id: str) -> Question:
    """The question of that id. Raises ValueError with the ids there are."""
    for each in QUESTIONS:
        if each.id == question_id:
            return each
    ids = [each.id for each in QUESTIONS]
    close = nearest(question_id, ids)
    near = f"; the nearest is {close[0]}" if close else ""
    raise ValueError(f"question is {shown(question_id)}; known questions are {', '.join(ids)}{near}.")


__all__ = ["QUESTIONS", "Answer", "Option", "Planner", "Question", "question"]
