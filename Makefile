# `make demo` and `make test` need Python 3.11 or newer and nothing else: no compiler, no git.
PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
ENV := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check validity bench reproduce strong docs hooks lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(ENV)  ## train, weigh, certify and verify on bundled real data
	$(BIN)/pacvote demo

test: $(ENV)  ## the tests but for the slow ones, then `make check`
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"
	@$(MAKE) --no-print-directory check

check: $(ENV)  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

validity: $(ENV)  ## the slow tests: do certificates hold as often as they claim?
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow -rP
	PACVOTE_HYPOTHESIS=validity $(BIN)/pytest -n $(WORKERS) tests/test_concentration_balls.py

bench: $(ENV)  ## time what must be fast
	$(BIN)/python -m benchmarks

reproduce: $(ENV)  ## the paper's experiments on the data in PACVOTE_DATA: hours; stopped, it goes on where it was
	$(BIN)/pacvote reproduce all --n-jobs $(WORKERS) --out reproduction

strong: $(ENV)  ## a few strong voters on the data in PACVOTE_DATA: an hour; stopped, it goes on where it was
	$(BIN)/python -m benchmarks.strong_voters --out strong

docs: $(ENV)  ## the documentation into build/docs, examples run, links checked
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	$(BIN)/python docs/check_links.py build/docs

hooks: $(ENV)  ## run the format, lint and type checks before each commit
	$(BIN)/prek install

# --no-config: a mirror configured on this machine has no say in what is locked.
lock: $(ENV)  ## renew requirements.lock
	$(BIN)/uv pip compile pyproject.toml --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	  --extra app --extra dask --group test --group docs --group bench --group build --generate-hashes \
	  --no-config --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements.lock

clean:  ## remove the environment and everything generated
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	rm -rf docs/api docs/gallery docs/sg_execution_times.rst
	find . -name __pycache__ -prune -exec rm -rf {} +

# pip only fetches uv, by the hash in the lock; uv then installs the rest in seconds.
$(ENV): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'pacvote needs Python 3.11 or newer; "$(PYTHON)" is not. Try: make PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .venv/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --only-binary :all: -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@
