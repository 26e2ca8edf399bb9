"""The command line: ``python -m planner COMMAND``. Every figure comes from :func:`planner.plan` and the catalogs.

Each command is a file with ``run(arguments) -> str``: the whole answer as text, so that nothing is printed
before everything went well. Whatever is slow to import is imported inside the command that needs it.
"""
