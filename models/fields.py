"""Typed, bounded access to the keys of a config, with a record of which keys were understood."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from models.errors import ModelError, quoted
from models.harmless import is_harmless

_MISSING = object()

LIMITS: dict[str, int] = {"layers": 2_000, "experts": 100_000, "vocab": 50_000_000, "context": 10**12}
WIDTH_LIMIT = 1_000_000


class Fields:
    """One mapping of a config. Each getter validates and marks its key; :meth:`finish` refuses the rest."""

    def __init__(self, config: Mapping[str, Any], name: str, where: str = "") -> None:
        self.config = config
        self.name = name
        self.where = where
        self.used: set[str] = set()

    def error(self, sentence: str) -> ModelError:
        """A :class:`ModelError` whose sentence starts with the name of the config."""
        return ModelError(f"{self.name}: {sentence}")

    def path(self, key: str) -> str:
        """Key as a person finds it in the file."""
        return f"{self.where}{key}" if key.isprintable() and len(key) <= 100 else quoted(f"{self.where}{key}", 100)

    def has(self, *keys: str) -> bool:
        """True when one of the keys is there and not null."""
        return any(self.config.get(key) is not None for key in keys)

    def _take(self, keys: Sequence[str], default: Any) -> tuple[str, Any]:
        """First present key of ``keys`` with its value; all present ones must agree."""
        present = [key for key in keys if self.config.get(key) is not None]
        self.used.update(keys)
        for other in present[1:]:
            if self.config[other] != self.config[present[0]]:
                raise self.error(
                    f"{self.path(present[0])} is {quoted(self.config[present[0]])} but {self.path(other)} is "
                    f"{quoted(self.config[other])}; they mean the same and must agree."
                )
        if present:
            return present[0], self.config[present[0]]
        if default is _MISSING:
            raise self.error(f"the key {self.path(keys[0])} is missing, and nothing is assumed in its place.")
        return keys[0], default

    def _whole(self, key: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(
                f"{self.path(key)} is {quoted(value)}; a whole number from {low:,} to {high:,} is accepted."
            )
        if not low <= value <= high:
            raise self.error(
                f"{self.path(key)} is {quoted(value)}; a whole number from {low:,} to {high:,} is accepted."
            )
        return value

    def whole(self, *keys: str, default: Any = _MISSING, low: int = 1, high: int = WIDTH_LIMIT) -> int:
        """A whole number between ``low`` and ``high``; several keys are names of the same thing."""
        key, value = self._take(keys, default)
        return self._whole(key, value, low, high)

    def optional_whole(self, *keys: str, low: int = 1, high: int = WIDTH_LIMIT) -> int | None:
        """Like :meth:`whole`, None when absent or null."""
        key, value = self._take(keys, None)
        return None if value is None else self._whole(key, value, low, high)

    def flag(self, key: str, default: bool) -> bool:
        """A true or false."""
        _, value = self._take((key,), default)
        if not isinstance(value, bool):
            raise self.error(f"{self.path(key)} is {quoted(value)}; true or false is accepted.")
        return value

    def text(self, *keys: str, default: Any = _MISSING, accepted: Sequence[str] = ()) -> str:
        """A string, one of ``accepted`` when given."""
        key, value = self._take(keys, default)
        if not isinstance(value, str) or (accepted and value not in accepted):
            what = " or ".join(accepted) if accepted else "a text"
            raise self.error(f"{self.path(key)} is {quoted(value)}; {what} is accepted.")
        return value

    def expect(self, key: str, *accepted: Any, why: str) -> None:
        """The key may be absent, null or one of ``accepted``; anything else changes the structure."""
        _, value = self._take((key,), None)
        if value is None:
            return
        if not any(type(value) is type(good) and value == good for good in accepted):
            allowed = " or ".join(quoted(good) for good in accepted) or "its absence"
            raise self.error(f"{self.path(key)} is {quoted(value)}, which is not understood ({why}); {allowed} is.")

    def whole_list(self, key: str, low: int = 0, high: int = WIDTH_LIMIT) -> list[int] | None:
        """A list of whole numbers, None when absent or null."""
        _, value = self._take((key,), None)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > LIMITS["layers"] * 2:
            raise self.error(f"{self.path(key)} is {quoted(value)}; a list of whole numbers is accepted.")
        return [self._whole(f"{key}[{i}]", item, low, high) for i, item in enumerate(value)]

    def word_list(self, key: str, accepted: Sequence[str], length: int | None = None) -> list[str] | None:
        """A list of words out of ``accepted``, None when absent or null."""
        _, value = self._take((key,), None)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(f"{self.path(key)} is {quoted(value)}; a list is accepted.")
        for i, item in enumerate(value):
            if not isinstance(item, str) or item not in accepted:
                raise self.error(f"{self.path(key)}[{i}] is {quoted(item)}; {' or '.join(accepted)} is accepted.")
        if length is not None and len(value) != length:
            raise self.error(f"{self.path(key)} has {len(value)} entries for {length} layers; one per layer is needed.")
        return value

    def child(self, key: str) -> Fields:
        """A nested mapping, to be finished on its own."""
        _, value = self._take((key,), _MISSING)
        if not isinstance(value, Mapping):
            raise self.error(f"{self.path(key)} is {quoted(value)}; an object is accepted.")
        return Fields(value, self.name, f"{self.where}{key}.")

    def ignore(self, *keys: str) -> None:
        """Mark keys as understood and without influence on what is counted."""
        self.used.update(keys)

    def layers(self, *keys: str) -> int:
        """Number of blocks."""
        return self.whole(*keys, high=LIMITS["layers"])

    def experts(self, *keys: str) -> int:
        """Routed experts per MoE layer; fewer than two is a dense model."""
        key, value = self._take(keys, _MISSING)
        count = self._whole(key, value, 0, LIMITS["experts"])
        if count < 2:
            raise self.error(
                f"{self.path(key)} is {count}, so this is a dense model; only Mixture-of-Experts models are planned."
            )
        return count

    def top_k(self, experts: int, *keys: str, default: Any = _MISSING) -> int:
        """Experts per token, at most ``experts``."""
        key, value = self._take(keys, default)
        count = self._whole(key, value, 1, LIMITS["experts"])
        if count > experts:
            raise self.error(f"{self.path(key)} is {count} but there are only {experts} experts.")
        return count

    def finish(self) -> None:
        """Refuse every key that was not read and is neither switched off nor known to be harmless."""
        for key, value in self.config.items():
            if not isinstance(key, str):
                raise self.error(f"the key {quoted(key)} is not a text.")
            if key in self.used or key.startswith("_"):
                continue
            if value is None or value is False or value == 0 or (isinstance(value, (str, list, dict)) and not value):
                continue  # a feature that is switched off changes nothing
            if isinstance(value, float) and not math.isfinite(value):
                raise self.error(f"{self.path(key)} is not a finite number.")
            if not is_harmless(key):
                raise self.error(
                    f"the key {self.path(key)} = {quoted(value, 40)} is not understood and may change what is counted."
                )
