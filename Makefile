# Two commands: `make reproduce` re-makes the paper's results, `make test` checks everything.
# Each sets up what it needs in .venv, once; a stamp file remembers it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: reproduce test lint types imports tests format clean

reproduce: $(VENV)/.with-paper
	$(BIN)/ghrr paper run --quick --out report

test: lint types imports tests

lint: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.with-dev
	$(BIN)/mypy

imports: $(VENV)/.with-dev
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/.with-dev
	$(BIN)/pytest --numprocesses 2 --cov --cov-report=
	$(BIN)/coverage report --fail-under 95 --include '*/ghrr/ops/*,*/ghrr/algebra.py,*/ghrr/unitary/*,*/ghrr/space.py'

format: $(VENV)/.with-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) report .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ghrr needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first: named with its version, it is taken as pinned and nothing pulls in another build of it.
$(VENV)/.with-paper: pyproject.toml constraints.txt $(VENV)/.created
	@echo "Installing ghrr into $(VENV), once; this takes a minute or two."
	@$(PIP) "$$(grep '^torch==' constraints.txt)"
	@$(PIP) --editable '.[paper]'
	@touch $@

$(VENV)/.with-dev: $(VENV)/.with-paper
	@echo "Installing the development tools into $(VENV), once."
	@$(PIP) --editable '.[dev]'
	@touch $@
