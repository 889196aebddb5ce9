# make check      check lint, types and imports, and run a fast subset of the tests (two minutes)
# make test       run all checks and tests (ten minutes)
# make docs       build the documentation in docs/_build/html/index.html; runs all examples
# make reproduce  reproduce the results of the paper in report/index.html
# make bench      measure speed
# make fuzz       attack the library for ten minutes: damaged files, kills, threads; SEED=n chooses the attacks
# make package    build and check the sdist and the wheel
# make coverage-all  measure the coverage of all of src by all tests (slow; run it alone)
# make mutants    break lines of the library, chosen at random, and count the faults that the tests detect
#
# The first run of a target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

# Builds the sdist and the wheel in dist/, checks them, and tries the wheel in an empty environment.
package: $(VENV)/.with-dev
	rm -rf dist $(VENV)/wheel
	@$(PIP) build twine
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv $(VENV)/wheel
	$(VENV)/wheel/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(VENV)/wheel/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt dist/*.whl
	cd dist && ../$(VENV)/wheel/bin/ghrr demo

.PHONY: package reproduce check test lint types imports fast tests coverage coverage-all docs docs-quick linkcheck bench fuzz fuzz-tests mutants format clean

reproduce: $(VENV)/.with-paper
	$(BIN)/ghrr paper run --quick --out report

check: $(VENV)/.with-dev
	$(MAKE) --no-print-directory -j2 types fast lint imports

test: $(VENV)/.with-triton
	$(MAKE) --no-print-directory -j2 types tests lint imports docs-quick
	$(MAKE) --no-print-directory coverage

lint: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.with-dev
	$(BIN)/mypy

imports: $(VENV)/.with-dev
	$(BIN)/lint-imports --no-cache

fast: $(VENV)/.with-dev
	$(BIN)/pytest --fast --quiet --numprocesses 2 --dist worksteal

# On a machine without a GPU, GPU kernels run in triton's interpreter.
tests: $(VENV)/.with-triton
	$(BIN)/pytest --numprocesses 2 --dist worksteal --cov --cov-report=

coverage:
	$(BIN)/coverage report --fail-under 95

# Traces all of src in all tests, which takes several times as long as `make tests`: run it alone. `make coverage-all
# TESTS=tests/memory` tries it on a folder. Compiled kernels cannot be traced. Tests of speed can fail when traced, so
# failures do not stop it.
TESTS ?=
coverage-all: $(VENV)/.with-triton
	-$(BIN)/pytest --numprocesses 2 --dist worksteal --cov=src --cov-report= $(TESTS)
	$(BIN)/coverage report --fail-under $(if $(TESTS),0,90)

# Warnings are errors. This checks internal links; `make linkcheck` checks external links and needs the internet.
SPHINX = $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs 2

docs: $(VENV)/.with-dev
	rm -rf docs/_build/html docs/generated
	$(SPHINX) --doctree-dir docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# Builds the documentation without running the examples.
docs-quick: $(VENV)/.with-dev
	rm -rf docs/_build/quick docs/generated
	$(SPHINX) --define plot_gallery=0 --doctree-dir docs/_build/quick-doctrees docs docs/_build/quick
	$(BIN)/python docs/check_site.py docs/_build/quick

linkcheck: $(VENV)/.with-dev
	$(BIN)/sphinx-build --builder linkcheck --define plot_gallery=0 docs docs/_build/linkcheck

bench: $(VENV)/.with-dev
	$(BIN)/python -m benchmarks ops.speed
	$(BIN)/python -m benchmarks ops.peers
	$(BIN)/python -m benchmarks models.peers
	$(BIN)/python -m benchmarks ops.figures

# Runs every campaign of tests/faults for its share of the time, adds what it tried to results/benchmarks/faults.json, and
# updates the documents. `make fuzz CASE=kills:3:17` repeats one case. Files are written only to temporary folders.
SEED ?= 0
SECONDS ?= 600
CASE ?=
fuzz: $(VENV)/.with-dev
	$(BIN)/python -m tests.faults.campaign --seed $(SEED) --seconds $(SECONDS) --case "$(CASE)"; \
	  status=$$?; $(BIN)/python -m benchmarks documents; exit $$status

# Runs the tests that are marked fuzz: an interrupt at every line, a thousand rounds of threads.
fuzz-tests: $(VENV)/.with-dev
	timeout 1200 $(BIN)/pytest -m fuzz tests/faults

# Breaks LINES lines of each package, chosen by SEED. It continues where an earlier call stopped; remove the file to start again.
LINES ?= 25
mutants: $(VENV)/.with-triton
	$(BIN)/python -m tests.mutants.run --seed $(SEED) --lines $(LINES) --out results/benchmarks/mutations.json

format: $(VENV)/.with-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) report docs/_build docs/generated .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ghrr needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first, with its pinned version, so that no dependency installs another build of it.
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
