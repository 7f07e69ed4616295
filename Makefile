# `make demo` and `make test` do their own set-up: nothing but Python 3.9-3.11 is needed.
# PYTHON=/path/to/python chooses the interpreter for the virtual environment.

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
SETUP_FILES := setup.cfg pyproject.toml constraints.txt
# pytest-xdist runs the tests on this many processes.
TEST_WORKERS ?= 2
# `make compare` trains this many models at a time.
COMPARE_JOBS ?= 2

.PHONY: help setup demo compare test test-all lint bench audit clean

help:
	@echo "make demo      train, evaluate and export a model on phantom data (minutes)"
	@echo "make compare   train all models alike on phantom data: one table (35 minutes)"
	@echo "make test      the tests"
	@echo "make test-all  the tests, the slow ones too"
	@echo "make lint      ruff"
	@echo "make bench     speed and memory, as ratios"
	@echo "make audit     known vulnerabilities of the pinned packages (needs the network)"
	@echo "make clean     remove the virtual environment and the runs"

setup: $(STAMP)

$(STAMP): $(SETUP_FILES)
	@bash .ci/venv $(VENV)
	@touch $@

demo: $(STAMP)
	$(RUN) run/demo.py

compare: $(STAMP)
	$(RUN) run/compare_models.py --jobs=$(COMPARE_JOBS)

test: $(STAMP)
	$(RUN) -m pytest -n $(TEST_WORKERS) -m "not slow"

test-all: $(STAMP)
	$(RUN) -m pytest -n $(TEST_WORKERS)

lint: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

bench: $(STAMP)
	@for bench in run/bench_*.py; do echo "== $$bench"; $(RUN) $$bench || exit 1; done

# In an environment of its own: nothing of the package needs it.
# Exit codes: 0 nothing is known, 1 vulnerabilities found, 3 no answer for some or all.
audit: $(STAMP)
	@bash .ci/audit $(RUN) $(VENV)/audit

clean:
	rm -rf $(VENV) runs build *.egg-info
