"""The records of a Result, one file per subject. Import them from :mod:`planner.result`."""
