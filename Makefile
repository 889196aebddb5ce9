# `make reproduce` re-makes the paper's results, `make test` checks everything, `make bench` measures speed,
# `make fuzz` reads thousands of damaged files.
# Each sets up what it needs in .venv, once; a stamp file remembers it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: reproduce test lint types imports tests kernels coverage bench fuzz format clean

reproduce: $(VENV)/.with-paper
	$(BIN)/ghrr paper run --quick --out report

test: lint types imports tests kernels coverage

lint: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.with-dev
	$(BIN)/mypy

imports: $(VENV)/.with-dev
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/.with-dev
	$(BIN)/pytest --numprocesses 2 --cov --cov-report=

# The kernels for a GPU, by triton's interpreter on the CPU. On a GPU itself: pytest with the same files.
kernels: $(VENV)/.with-triton
	TRITON_INTERPRET=1 $(BIN)/pytest --numprocesses 2 --cov --cov-append --cov-report= tests/ops/test_triton*.py tests/nn/test_*_triton.py

# Of what the runs before have seen.
coverage:
	$(BIN)/coverage report --fail-under 95 --include '*/ghrr/ops/*,*/ghrr/algebra/*,*/ghrr/unitary/*,*/ghrr/space/*'

bench: $(VENV)/.with-dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/peer_operations.py
	$(BIN)/python benchmarks/figures.py

# Stops after ten minutes. Files are written only below pytest's temporary folder.
fuzz: $(VENV)/.with-dev
	timeout 600 $(BIN)/pytest -m fuzz tests/faults

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

$(VENV)/.with-triton: $(VENV)/.with-dev
	@echo "Installing triton into $(VENV), once; it is large."
	@$(PIP) --editable '.[gpu]'
	@touch $@
