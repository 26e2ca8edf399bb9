"""Units of figures as the page shows them; the words live with the others, so that the command line says the same."""

from planner.words.units import GIB, SCALES, Scale, range_shown, scale, shown

__all__ = ["GIB", "SCALES", "Scale", "range_shown", "scale", "shown"]
