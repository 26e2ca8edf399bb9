"""Speed, start-up and memory, measured side by side in one run: ``python -m benchmarks``.

One file per subject, each runnable by itself (``python -m benchmarks.plans``) and printing one table with
:func:`benchmarks.report.show`. Ratios between rows of one run are what to trust; absolute times are this machine's.
"""
