"""``brief``: the one page to decide on, as HTML, PDF, workbook, CSV or JSON."""

from __future__ import annotations

from pathlib import Path, PurePath

from planner.cli.configs import read_limited
from planner.cli.output import check_out, json_text, plain
from planner.cli.parsing import UsageError
from planner.cli.plan import build, scenario_parser
from planner.fields import scenario_from_json
from planner.files import write_whole

_DESCRIPTION = (
    "Writes the brief of a scenario: decision, options, frontier, cost, power, targets, what the answer hangs on and "
    "what would change it, all assumptions and inputs. The ending of --out chooses the form: .html, .pdf, .xlsx, .csv "
    "or .json."
)
MOST_OPTIONS = 3


def run(command: str, arguments: list[str]) -> str:
    """Writes the file and says so; without ``--out`` the brief as text, or with ``--json`` as a record."""
    parser = scenario_parser(command, _DESCRIPTION)
    parser.add_argument("--out", metavar="FILE", help="file to write: .html, .pdf, .xlsx, .csv or .json")
    parser.add_argument("--title", metavar="TEXT", default="", help="title; the model and the system by default")
    parser.add_argument("--author", metavar="NAME", default="", help="who answers for it")
    parser.add_argument("--executor", metavar="WHERE", help="here, processes, processes:N or dask:ADDRESS")
    told = "another scenario as JSON to decide between; up to three"
    parser.add_argument("--option", metavar="FILE", action="append", default=[], help=told)
    options = parser.read(arguments)
    form = _form(options.out)
    if len(options.option) > MOST_OPTIONS:
        raise UsageError(f"--option is given {len(options.option)} times; a brief takes up to {MOST_OPTIONS}.")
    scenario = build(options)
    others = [(PurePath(name).stem, scenario_from_json(read_limited(name, "scenario"))) for name in options.option]

    from planner.brief import brief, export
    from planner.sweep import executor

    found = brief(
        scenario, title=options.title, author=options.author, others=others, executor=executor(options.executor)
    )
    if form is not None:
        write_whole(options.out, export(found, form), UsageError)
    if options.json:
        return json_text(found, indent=None)
    lines = [found.decision, found.options_sentence, *(target.sentence for target in found.targets), *found.turns]
    written = [f"Written to {options.out}."] if form is not None else []
    text = "\n".join(line for line in [*lines, *written] if line)
    return plain(text) + "\n"


def _form(name: str | None) -> str | None:
    if name is None:
        return None
    from planner.brief import pdf
    from planner.brief.export import FORMATS
    from planner.fields.sentences import shown

    form = Path(name).suffix.removeprefix(".").casefold()
    if form not in FORMATS:
        raise UsageError(f"--out is {shown(name)}; it takes a file that ends with .{', .'.join(FORMATS)}.")
    check_out(name)  # before a minute of planning, not after it
    if form == "pdf":
        pdf.printer()
    return form
