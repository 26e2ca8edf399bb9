"""``ask`` answers one of the example questions of capacity planning, computed when asked."""

from __future__ import annotations

from planner.cli.output import columns, json_text
from planner.cli.parsing import CommandParser, UsageError


def run(command: str, arguments: list[str]) -> str:
    """The list of questions, or the answer to one, as text or JSON. Raises UsageError for an unknown question."""
    parser = CommandParser(command, "Answers an example question; without one, lists them.")
    parser.add_argument("question", nargs="?", help="id of a question")
    options = parser.read(arguments)

    import planner
    from planner.guidance.questions import QUESTIONS, question
    from planner.result import Result
    from planner.scenario import Scenario
    from planner.words.formats import significant

    if options.question is None:
        if options.json:
            return json_text([{"id": q.id, "title": q.title, "why": q.why} for q in QUESTIONS])
        return columns([(q.id, q.title) for q in QUESTIONS], header=("id", "question"))
    try:
        asked = question(options.question)
    except ValueError as error:
        raise UsageError(str(error)) from error

    def plan(scenario: Scenario) -> Result:
        return planner.plan(scenario, with_ranges=False, with_marginals=False)

    answer = asked.solve(plan)
    if options.json:
        rows = [
            {
                "name": option.name,
                "note": option.small,
                "headline": option.result.headline.model_dump(mode="json"),
                "scenario": option.scenario.model_dump(mode="json"),
            }
            for option in answer.options
        ]
        return json_text(
            {
                "id": asked.id,
                "title": asked.title,
                "sentence": answer.sentence,
                "details": answer.details,
                "rests_on": answer.rests_on,
                "chosen": answer.chosen,
                "options": rows,
            }
        )
    rows_: list[tuple[str, ...]] = [("option", "output tok/s", "TPOT, ms", "$/M output")]
    for option in answer.options:
        head = option.result.headline
        figures = (head.tokens_per_s_system, (head.tpot_s or 0) * 1e3 or None, head.usd_per_million_output_tokens)
        rows_.append((option.name, *("" if v is None else significant(v) for v in figures)))
    table = columns(rows_[1:], header=rows_[0], numbers=(1, 2, 3))
    return "\n\n".join([asked.title, answer.sentence, table, "\n".join(answer.details), answer.rests_on])
