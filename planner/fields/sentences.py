"""How a value, a choice and a near miss are worded in a sentence that refuses something."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile

from planner.errors import PlanError

SHOWN_CHARACTERS = 60
LARGEST_SHOWN_INTEGER = 10**20
MOST_FAULTS = 50
_PART = re.compile(r"[a-z]+|\d+")


class ScenarioError(PlanError):
    """A scenario, or a change to one, that cannot be read.

    ``sentences`` holds one sentence per faulty field, ``paths`` the field of each (``""`` for the whole);
    ``str(error)`` is a single sentence that names every faulty field.
    """

    def __init__(self, sentences: str | Sequence[str], paths: Sequence[str] = ()) -> None:
        self.sentences: tuple[str, ...] = (sentences,) if isinstance(sentences, str) else tuple(sentences)
        self.paths: tuple[str, ...] = tuple(paths) if paths else ("",) * len(self.sentences)
        super().__init__(self._one_sentence())

    def _one_sentence(self) -> str:
        first = self.sentences[0]
        if len(self.sentences) == 1:
            return first
        others = list(dict.fromkeys(path for path in self.paths[1:] if path))[:3]
        more = len(self.sentences) - 1
        named = f": {', '.join(others)}{', ...' if more > len(others) else ''}" if others else ""
        counted = (
            "1 more fault" if more == 1 else f"{more} more faults" if more < MOST_FAULTS - 1 else "many more faults"
        )
        return f"{first.rstrip('.')} (and {counted}{named})."


def shown(value: object) -> str:
    """``value`` as a sentence shows it: JSON notation, at most about 60 characters, safe for a terminal."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number (NaN)" if math.isnan(value) else ("infinite" if value > 0 else "minus infinity")
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, int) and abs(value) >= LARGEST_SHOWN_INTEGER:
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return f"an object of {len(value):,} {'entry' if len(value) == 1 else 'entries'}"
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return f"of type {type(value).__name__}"


def _quoted(text: str) -> str:
    """In quotes; what does not print is escaped, and what is long as written, escapes included, is cut."""
    written = [c if c.isprintable() and c not in '"\\' else json.dumps(c)[1:-1] for c in text[: SHOWN_CHARACTERS + 1]]
    if sum(map(len, written)) <= SHOWN_CHARACTERS:
        return f'"{"".join(written)}"'
    room = SHOWN_CHARACTERS - 5
    kept = takewhile(lambda pair: pair[1] <= room, zip(written, accumulate(map(len, written)), strict=True))
    return f'"{"".join(c for c, _ in kept)}..." ({len(text):,} characters)'


def nearest(word: str, accepted: Iterable[str], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """The accepted words closest to ``word``, best first, at most ``count``; capitals do not matter.

    A word contained in an accepted one counts as close: ``mixtral`` finds ``mistralai/Mixtral-8x7B-v0.1``. So does one
    whose parts are all parts of it, and that comes first: ``H100 80GB`` finds ``H100 SXM 80GB`` before ``H800 80GB``.
    """
    wanted = word[:200].casefold()
    by_fold: dict[str, str] = {}
    for candidate in accepted:
        by_fold.setdefault(candidate.casefold(), candidate)
    parts = set(_PART.findall(wanted))
    close = difflib.get_close_matches(wanted, by_fold, n=max(count, len(by_fold)), cutoff=cutoff)
    whole = [fold for fold in close if len(parts) > 1 and all(_begins(part, fold) for part in parts)]
    found = [*whole, *(fold for fold in close if fold not in whole)][:count]
    if len(wanted) >= 3:
        found += [fold for fold in by_fold if wanted in fold and fold not in found]
    return [by_fold[fold] for fold in found[:count]]


def _begins(part: str, name: str) -> bool:
    """Whether a part of the name begins like this."""
    return any(other.startswith(part) for other in _PART.findall(name))


def one_of(words: Sequence[str], conjunction: str = "or") -> str:
    """``a, b or c``."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
