"""One JSON file that holds a scenario or a project, with its versions, comments, and all that it refers to.

The format, pure: no database, no file names from content. A file is hostile until :func:`read` has returned; then
every scenario in it is one that this version plans, every attachment has the digest that it is named by, and the whole
has the digest that it was written with. Share links are no part of a file: they belong to the store that made them.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from planner.bundle_parts import Attachments, collect
from planner.errors import PlanError
from planner.fields.sentences import ScenarioError, shown
from planner.fields.tree import MAX_DEPTH, check_tree, no_duplicates
from planner.scenario import Scenario

FORMAT: Final = "tierline-bundle"
SCHEMA_VERSION: Final = 1
MAX_BYTES = 64_000_000
_DEPTH = MAX_DEPTH + 8  # a scenario as deep as one may be, and the levels of the file around it
MAX_SCENARIOS, MAX_VERSIONS, MAX_COMMENTS = 10_000, 100_000, 100_000


class BundleError(PlanError):
    """A file that cannot be read or written; one sentence."""


def _in_our_time(at: datetime) -> datetime:
    # Beyond them a moment has no counterpart in another time zone, and no database or calendar need hold it.
    if not EARLIEST_YEAR <= at.year <= LATEST_YEAR:
        raise ValueError(f"the moment is outside the years {EARLIEST_YEAR} to {LATEST_YEAR}")
    return at


EARLIEST_YEAR, LATEST_YEAR = 1970, 2999
Moment = Annotated[AwareDatetime, AfterValidator(_in_our_time)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BundleVersion(_Record):
    """One version. ``parent`` is the key of another version of this file; None where that is not in it."""

    key: str = Field(max_length=64)
    number: int = Field(ge=1, le=MAX_VERSIONS)
    parent: str | None = Field(None, max_length=64)
    restored: int | None = Field(None, ge=1, le=MAX_VERSIONS)
    author: str = Field("", max_length=200)
    created_at: Moment
    engine_version: str = Field("", max_length=100)
    catalog_digest: str = Field("", max_length=100)
    name: str = Field(max_length=200)
    note: str = Field("", max_length=10_000)
    tags: tuple[str, ...] = Field((), max_length=20)
    scenario: Scenario


class BundleComment(_Record):
    """What a person wrote about the scenario, or about version ``number`` of it."""

    number: int | None = Field(None, ge=1, le=MAX_VERSIONS)
    author: str = Field("", max_length=200)
    text: str = Field(max_length=10_000)
    created_at: Moment


class BundleScenario(_Record):
    """A scenario: its versions from 1 up, and its comments."""

    author: str = Field("", max_length=200)
    created_at: Moment
    versions: tuple[BundleVersion, ...] = Field(min_length=1, max_length=MAX_VERSIONS)
    comments: tuple[BundleComment, ...] = Field((), max_length=MAX_COMMENTS)


class BundleProject(_Record):
    """The project that was exported as a whole."""

    name: str = Field(max_length=200)
    note: str = Field("", max_length=10_000)
    author: str = Field("", max_length=200)
    created_at: Moment


class Bundle(_Record):
    """The whole file, without its own digest."""

    format: Literal["tierline-bundle"] = FORMAT
    schema_version: Literal[1] = SCHEMA_VERSION
    engine_version: str = Field("", max_length=100)
    catalog_digest: str = Field("", max_length=100)
    created_at: Moment
    project: BundleProject | None = None
    scenarios: tuple[BundleScenario, ...] = Field(min_length=1, max_length=MAX_SCENARIOS)
    attachments: Attachments = Field(default_factory=Attachments)
    missing: tuple[str, ...] = Field(
        (), max_length=10_000, description="what scenarios refer to and the machine that exported them did not have"
    )

    @property
    def versions(self) -> int:
        """How many versions there are in all."""
        return sum(len(scenario.versions) for scenario in self.scenarios)


def bundle(scenarios: tuple[BundleScenario, ...], project: BundleProject | None = None) -> Bundle:
    """A file's content, with every table, calibration and machine that a version refers to."""
    from planner import ENGINE_VERSION
    from planner.stamp import catalog_digest

    attachments, missing = collect(version.scenario for each in scenarios for version in each.versions)
    return Bundle(
        engine_version=ENGINE_VERSION,
        catalog_digest=catalog_digest(),
        created_at=datetime.now(UTC),
        project=project,
        scenarios=scenarios,
        attachments=attachments,
        missing=missing,
    )


def of_scenario(scenario: Scenario, name: str, note: str = "", author: str = "") -> Bundle:
    """A file with one scenario that is not in a library, as version 1."""
    now = datetime.now(UTC)
    version = BundleVersion(key="1", number=1, author=author, created_at=now, name=name, note=note, scenario=scenario)
    return bundle((BundleScenario(author=author, created_at=now, versions=(version,)),))


def write(content: Bundle) -> bytes:
    """The file: JSON in ASCII, with a digest of everything else in it. Raises BundleError when it grows too large."""
    data = content.model_dump(mode="json")
    for scenario, original in zip(data["scenarios"], content.scenarios, strict=True):
        for version, kept in zip(scenario["versions"], original.versions, strict=True):
            version["scenario"] = json.loads(kept.scenario.canonical_json())
    try:
        check_tree(data, "the export", _DEPTH)  # what read() would refuse is not written either
    except ScenarioError as error:
        raise BundleError(str(error)) from None
    text = json.dumps({**data, "digest": _digest(data)}, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    if len(text) > MAX_BYTES:
        raise BundleError(
            f"The export has {len(text) / 1e6:,.0f} MB; a file may have up to {MAX_BYTES / 1e6:.0f} MB, so export "
            "scenarios one by one."
        )
    return text.encode()


def read_file(path: str | Path) -> Bundle:
    """Read a file; its size is looked at before anything of it is read. Raises BundleError."""
    place = Path(path)
    try:
        size = place.stat().st_size
        if size > MAX_BYTES:
            raise too_large(size)
        with place.open("rb") as file:
            return read(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise BundleError(f"The file {shown(str(place))} cannot be read: {error.strerror or error}.") from None


def too_large(size: int) -> BundleError:
    """The sentence for a file of *size* bytes."""
    return BundleError(
        f"The file has {size / 1e6:,.0f} MB; an export of Tierline has up to {MAX_BYTES / 1e6:.0f} MB, and nothing of "
        "it was read."
    )


def read(data: bytes) -> Bundle:
    """A checked file, of which everything may be used, or a BundleError in one sentence."""
    if len(data) > MAX_BYTES:
        raise too_large(len(data))
    found = _tree(data)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BundleError(
            "The file is not an export of Tierline; it takes what Export on the Scenarios page or "
            "`python -m planner export` wrote."
        )
    version = found.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"The file was written by a newer Tierline (format {shown(version)}; this one reads up to "
            f"{SCHEMA_VERSION}); update Tierline to import it."
        )
    told = found.pop("digest", None)
    if told != _digest(found):
        raise BundleError(
            "The file was changed or cut off after it was exported: its digest does not fit; export it again."
        )
    try:
        content = Bundle.model_validate(found)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(_printable(str(part)) for part in detail["loc"])
        why = _printable(str(detail["msg"]).removeprefix("Value error, "))
        raise BundleError(f"The file cannot be imported: {where[:200]}: {' '.join(why.split())[:200]}.") from None
    _check(content)
    content.attachments.check()
    return content


def _check(content: Bundle) -> None:
    """What holds between the parts of a file."""
    keys: set[str] = set()
    for scenario in content.scenarios:
        name = shown(scenario.versions[-1].name)
        numbers = [version.number for version in scenario.versions]
        if numbers != list(range(1, len(numbers) + 1)):
            raise BundleError(f"The file cannot be imported: the versions of {name} are not numbered from 1 up.")
        for version in scenario.versions:
            if version.restored is not None and version.restored >= version.number:
                raise BundleError(
                    f"The file cannot be imported: version {version.number} of {name} brings back version "
                    f"{version.restored}, which is none before it."
                )
            if version.key in keys:
                raise BundleError(f"The file cannot be imported: two versions have the key {shown(version.key)}.")
            keys.add(version.key)
        if any((comment.number or 1) > len(numbers) for comment in scenario.comments):
            raise BundleError(f"The file cannot be imported: a comment on {name} is about a version that it lacks.")


def _digest(data: dict[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _tree(data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
        found = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=no_duplicates)
        check_tree(found, "the file", _DEPTH)
    except UnicodeDecodeError:
        raise BundleError("The file is not text; an export of Tierline is JSON in UTF-8.") from None
    except ScenarioError as error:
        raise BundleError(str(error)) from None
    except (ValueError, RecursionError):
        raise BundleError("The file is damaged or cut off: it is not JSON as an export of Tierline is.") from None
    return found


def _no_number(word: str) -> float:
    raise ValueError(word)


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits)


def _printable(text: str) -> str:
    """Names that a file made up, for a sentence: what does not print, or turns the line round, is escaped."""
    return "".join(c if c.isprintable() or c == " " else json.dumps(c)[1:-1] for c in text)
