"""The parts of the Compare page: choosing sides, charts on common axes, tables, the waterfall of reasons."""
