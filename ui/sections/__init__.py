"""The sections of the Plan page, one file each."""
