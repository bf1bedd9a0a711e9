# Everything from a bare machine with Python 3.11 or newer and make.
#
#   make release     write a synthetic state to example/ and its protected release to releases/
#   make reader      only what reads and checks releases of others, in .reader/
#   make test        the tests, but for the slow ones
#   make check       lint, types and import rules
#
# Every target makes .venv first, with the packages that it needs alone; make setup has those of all of them.
# PYTHON=/path/to/python3 names the Python to use.
# Packages have the versions of constraints.txt; with NEWEST=1 they are the newest that pyproject.toml allows.

VENV ?= .venv
BIN := $(VENV)/bin
# A file for each set of packages that is installed: what runs a release, and the extras test, lint and docs.
SET := $(VENV)/.$(if $(NEWEST),newest,kept)-
PYTHONS := $(PYTHON) python3.11 python3.12 python3.13 python3 python
# Python keeps what it has compiled, whatever the environment says: else each process that a test starts compiles it anew.
export PYTHONDONTWRITEBYTECODE :=
# Also what builds a package has these versions: older pips ask the first variable of it, newer ones the second.
PIP = PIP_CONSTRAINT=$(CONSTRAINTS) PIP_BUILD_CONSTRAINT=$(CONSTRAINTS) $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL = $(PIP) install $(if $(NEWEST),--upgrade --upgrade-strategy eager)
CONSTRAINTS := $(if $(NEWEST),,constraints.txt)
# Two tests at a time, of the slow ones four: these wait for processes, servers and a browser, too. Those of a file stay
# together, and share what they prepare.
PYTEST = $(BIN)/python -m pytest -n 2
BENCHMARKS := $(filter-out %/bench_national.py,$(shell grep -l -e '"--json"' benchmarks/bench_*.py))

.PHONY: help setup constraints release reader test test-slow test-all test-version lint types imports check format docs texts site report-js golden same bench bench-national clean

help:
	@sed -n '3,10s/^# \{0,1\}//p' Makefile

# Two installs at a time would spoil the environment.
.NOTPARALLEL:

setup: $(SET)test $(SET)lint $(SET)docs

# A shim of a Python that is not there, one without venv, and one that is too old are all passed over.
define ENVIRONMENT
set -e; \
if ! $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
    found=; seen=; \
    for candidate in $(PYTHONS); do \
        if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
        then found="$$candidate"; break; fi; \
        version=$$("$$candidate" --version 2>/dev/null) && seen="$$seen $$candidate is $$version;" || true; \
    done; \
    if [ -z "$$found" ]; then \
        echo "Spinewise needs Python 3.11 or newer with its modules venv and ensurepip, and none was found." >&2; \
        echo "Looked for: $(PYTHONS).$${seen:+ Found:$$seen}" >&2; \
        echo "Install one (Debian and Ubuntu: apt-get install python3 python3-venv)," >&2; \
        echo "or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
        exit 1; \
    fi; \
    echo "making $(VENV) with $$found"; \
    "$$found" -m venv --clear $(VENV); \
fi
endef

$(SET)run: pyproject.toml $(if $(NEWEST),,constraints.txt)
	@$(ENVIRONMENT)
	@rm -f $(VENV)/.kept-* $(VENV)/.newest-*
	$(INSTALL) --no-compile --editable .
	@touch $@

$(SET)reader: reader.txt pyproject.toml $(if $(NEWEST),,constraints.txt)
	@$(ENVIRONMENT)
	$(INSTALL) --no-compile --requirement reader.txt
	$(INSTALL) --no-compile --no-deps --editable .
	@touch $@

$(SET)%: $(SET)run
	$(INSTALL) --editable ".[$*]"
	@touch $@

# The versions that are installed now; after all tests have passed with NEWEST=1.
constraints: setup
	$(BIN)/python tests/project/constraints.py

example/release.toml: | $(SET)run
	$(BIN)/spinewise example example

reader:
	@$(MAKE) --no-print-directory VENV=.reader .reader/.$(if $(NEWEST),newest,kept)-reader

release: $(SET)run example/release.toml
	$(BIN)/spinewise run example/release.toml --out releases

# Tests look at types, imports and the site, too.
test: setup
	$(PYTEST) -m "not slow" --durations=15

test-slow: setup
	$(PYTEST) -n 4 -m slow --durations=40

test-all: setup
	$(PYTEST)

# Before a version: the matrix for all cases, 20,000 spoilt inputs, kills in every step; and tests that draw
# examples with others than in every run.
test-version: setup
	SPINEWISE_TEST_VERSION=1 $(PYTEST) -m slow --durations=40
	SPINEWISE_TEST_VERSION=1 $(PYTEST) -m "not slow" $(shell grep -rl --include=*.py '^@given' tests)

lint: $(SET)lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(SET)test $(SET)lint
	$(BIN)/mypy

# Who may import whom; no modules that import each other.
imports: $(SET)lint
	$(BIN)/lint-imports
	$(BIN)/python tests/project/import_cycles.py

check: lint types imports

format: $(SET)lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What the pages take from the code: tables of docs/spec.md, docs/privacy.md and docs/testplan.md.
docs: setup
	$(BIN)/python tests/project/messages.py
	$(BIN)/python tests/project/spec_reference.py
	$(BIN)/python tests/project/reviewed_files.py
	$(BIN)/python tests/project/planted_faults.py

# What the small releases hold, as tests/matrix/ compares it; stops where numbers or streams of noise are others.
golden: $(SET)test
	PYTHONPATH=tests $(BIN)/python -m matrix.store

# Whether public bytes of small releases and the help of all commands are those of another commit: make same BASE=HEAD~1.
BASE ?= HEAD
same: $(SET)test
	$(BIN)/python tests/project/same_bytes.py $(BASE)

# The pages of docs/ as a site, in site/; any warning is an error.
site: $(SET)docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The report's texts in each language, with those that are new and without those that are gone.
texts: $(SET)test
	$(BIN)/python tests/project/report_texts.py

# The plotting library that the report carries, from the package that bundles it.
report-js: $(SET)test
	$(BIN)/python tests/project/report_script.py

# Each of those that take --json prints its table, and writes its figures as JSON to bench/.
bench: $(SET)test
	@mkdir -p bench
	@set -e; for file in $(BENCHMARKS); do \
	    name=$$(basename $$file .py); echo; echo "== $$name"; \
	    $(BIN)/python $$file --json bench/$${name#bench_}.json; \
	done

# Whole countries; takes most of an hour.
bench-national: $(SET)test
	@mkdir -p bench
	$(BIN)/python benchmarks/bench_national.py --json bench/national.json

# Leaves what cannot be had back: releases/ (which holds keys), and example/ with a spec that may have been edited.
clean:
	rm -rf $(VENV) .reader build dist bench site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find auditor geography pipeline postprocess features flows tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
