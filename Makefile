# make run    everything, from an empty machine with Python 3.11 or newer to the page on localhost
# make test   all that CI runs: lint, types, unit, page and browser tests, SQLite and PostgreSQL
# The steps are small scripts in .ci/; each may be run by itself.

PORT ?= 8501
HOST ?= 127.0.0.1
VENV ?= .venv
export VENV

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench clean install install-dev

help:
	@echo 'make run     install, prepare and serve the page on localhost (PORT=$(PORT))'
	@echo 'make test    all that CI runs'
	@echo 'make lint    style and types only'
	@echo 'make format  put the code into the common style'
	@echo 'make bench   speed, start-up and memory'
	@echo 'make clean   remove what the others made (never your saved scenarios)'

run: install
	@$(VENV)/bin/python -m db migrate
	@$(VENV)/bin/python -m db examples
	@$(VENV)/bin/python -m planner warm
	@exec $(VENV)/bin/python .ci/serve.py --host '$(HOST)' --port '$(PORT)'

test: install-dev
	@sh .ci/system
	@sh .ci/test

lint: install-dev
	@sh .ci/lint

format: install-dev
	@$(VENV)/bin/python -m ruff check --fix --exit-zero .
	@$(VENV)/bin/python -m ruff format .

bench: install-dev
	@$(VENV)/bin/python -m benchmarks

install:
	@sh .ci/install requirements.txt

install-dev:
	@sh .ci/install requirements-dev.txt

clean:
	rm -rf '$(VENV)' .pytest_cache .mypy_cache .ruff_cache .hypothesis test-results benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
