"""``calibrate``: coefficients for one's own machine from a few measured runs."""

from __future__ import annotations

from pathlib import Path

from planner.cli.output import check_out, columns, json_text
from planner.cli.parsing import CommandParser


def run(command: str, arguments: list[str]) -> str:
    """The calibration and what it does to runs left out; kept only if it helps, or with --accept. Raises PlanError."""
    parser = CommandParser(
        command,
        "Fits coefficients to a CSV of measured runs, held towards the shipped ones, and keeps them under a digest "
        "that system.calibration of a scenario takes. The columns are those that validate takes.",
    )
    parser.add_argument("file", metavar="FILE.csv", help="measured runs of one machine")
    parser.add_argument("--name", metavar="TEXT", help="name of the calibration; the file's name if left out")
    parser.add_argument("--out", metavar="FILE", help="write the calibration as JSON too")
    parser.add_argument("--accept", action="store_true", help="keep it even if it makes runs that were left out worse")
    options = parser.read(arguments)
    check_out(options.out)

    from planner import calibration
    from planner.files import write_whole
    from validation.measured.own import from_lines
    from validation.measured.reading import read_file

    path = Path(options.file)
    lines = tuple(read_file(path))
    found, unusable = from_lines(lines, (options.name or path.stem)[:120], path.name)
    kept = found.helps or options.accept
    digest = calibration.register(found.calibration) if kept else None
    if options.out is not None:
        write_whole(options.out, found.calibration.text().encode())
    if options.json:
        return json_text(
            {
                "digest": digest,
                "kept": kept,
                "rows": found.rows,
                "median_error_before": found.held_out_before,
                "median_error_held_out": found.held_out_after,
                "machines": found.machines,
                "calibration": found.calibration.model_dump(mode="json"),
                "unusable": [{"id": ident, "reason": why} for ident, why in unusable],
            },
            indent=None,
        )
    family = found.calibration.families["generic"]
    rows = [(path_, f"{c.value:g}", f"{c.low:g} - {c.high:g}") for path_, c in sorted(family.items())]
    text = (
        f"{found.rows} runs. Median error {100 * found.held_out_before:.1f} % with the shipped figures, "
        f"{100 * found.held_out_after:.1f} % on runs left out of the fit.\n"
    )
    text += f"{found.mixture}\n" if found.mixture else ""
    text += columns(rows, header=("figure", "value", "range"), numbers=(1,)) if rows else "No figure moves.\n"
    text += "".join(f"Not used: {ident}: {why}\n" for ident, why in unusable)
    if digest:
        return text + f"Kept. Use it with --set system.calibration={digest}\n"
    return text + "Not kept: it makes runs that were left out worse. --accept keeps it all the same.\n"
