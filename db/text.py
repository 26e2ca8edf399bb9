"""Text that people type: names and notes as plain data, and the folding that search compares."""

from __future__ import annotations

import unicodedata

from db.errors import InputError

NAME_CHARS = 200
NOTE_CHARS = 10_000
QUERY_CHARS = 200
_INVISIBLE = {"Cf", "Zs", "Zl", "Zp", "Cc"}


def clean_name(name: str) -> str:
    """One line of 1 to 200 characters; white space of any kind becomes single spaces."""
    text = unicodedata.normalize("NFC", " ".join(_text(name, "The name").split()))
    _no_control(text, "The name")
    if all(unicodedata.category(c) in _INVISIBLE for c in text):
        raise InputError("The name is empty; give the scenario a name of 1 to 200 characters.")
    if len(text) > NAME_CHARS:
        raise InputError(f"The name has {len(text):,} characters; up to {NAME_CHARS} are accepted.")
    return text


def clean_note(note: str) -> str:
    """Up to 10,000 characters on any number of lines."""
    text = _text(note, "The note").replace("\r\n", "\n").replace("\r", "\n").strip()
    text = unicodedata.normalize("NFC", text)
    _no_control(text, "The note")
    if len(text) > NOTE_CHARS:
        raise InputError(f"The note has {len(text):,} characters; up to {NOTE_CHARS:,} are accepted.")
    return text


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
