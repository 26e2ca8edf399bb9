"""Text that people type: names and notes as plain data, and the folding that search compares."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from db.errors import InputError

NAME_CHARS = 200
NOTE_CHARS = 10_000
QUERY_CHARS = 200
TAGS, TAG_CHARS = 20, 40
_INVISIBLE = {"Cf", "Zs", "Zl", "Zp", "Cc"}


def clean_name(name: str, what: str = "scenario") -> str:
    """One line of 1 to 200 characters; white space of any kind becomes single spaces."""
    text = _line(name, "The name", NAME_CHARS)
    if _blank(text):
        raise InputError(f"The name is empty; give the {what} a name of 1 to {NAME_CHARS} characters.")
    return text


def clean_author(author: str) -> str:
    """One line of up to 200 characters; empty where nobody gave a name."""
    text = _line(author, "Your name", NAME_CHARS)
    return "" if _blank(text) else text


def clean_note(note: str, field: str = "The note") -> str:
    """Up to 10,000 characters on any number of lines."""
    text = _text(note, field).replace("\r\n", "\n").replace("\r", "\n").strip()
    text = unicodedata.normalize("NFC", text)
    _no_control(text, field)
    if len(text) > NOTE_CHARS:
        raise InputError(f"{field} has {len(text):,} characters; up to {NOTE_CHARS:,} are accepted.")
    return text


def clean_comment(text: str) -> str:
    """1 to 10,000 characters on any number of lines."""
    cleaned = clean_note(text, "The comment")
    if _blank(cleaned):
        raise InputError("The comment is empty; write 1 to 10,000 characters.")
    return cleaned


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Up to 20 tags of 1 to 40 characters, each once, in the order given; empty ones are left out."""
    cleaned = (_line(tag, "A tag", TAG_CHARS) for tag in tags)
    found = tuple(dict.fromkeys(tag for tag in cleaned if not _blank(tag)))
    if len(found) > TAGS:
        raise InputError(f"There are {len(found)} tags; up to {TAGS} are accepted.")
    return found


def visible(text: str) -> str:
    """*text* with what a database column cannot hold (control characters, half surrogates) as U+FFFD."""
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def fold(text: str) -> str:
    """*text* as search compares it: compatible forms united, case folded, white space single.

    Done here and stored, because SQLite folds only ASCII and PostgreSQL folds by the server's locale.
    """
    united = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(visible(" ".join(united.split())).split())


def search_terms(query: str) -> list[str]:
    """The words of a query, folded; a row is found when it holds all of them."""
    return fold(query[:QUERY_CHARS]).split()


def _line(value: str, field: str, most: int) -> str:
    text = unicodedata.normalize("NFC", " ".join(_text(value, field).split()))
    _no_control(text, field)
    if len(text) > most:
        raise InputError(f"{field} has {len(text):,} characters; up to {most} are accepted.")
    return text


def _blank(text: str) -> bool:
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{field} must be text, not {type(value).__name__}.")
    return value


def _no_control(text: str, field: str) -> None:
    for position, character in enumerate(text, start=1):
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            raise InputError(
                f"{field} holds the control character U+{ord(character):04X} at position {position}; remove it."
            )
