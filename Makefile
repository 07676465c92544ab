# Each target makes its own environment under .venv/, one for each Python version.

# Every Python >= 3.11 on this machine that can make an environment, the plain python3 first.
CANDIDATES := python3 python3.11 python3.12 python3.13 python3.14 $(wildcard $(HOME)/.pyenv/versions/3.*/bin/python3)
USABLE := import ensurepip, sys, venv; sys.version_info >= (3, 11) or sys.exit(1); print("%d.%d" % sys.version_info[:2])
VERSIONS := $(shell for p in $(CANDIDATES); do $$p -c '$(USABLE)' 2>/dev/null; done | awk '!seen[$$0]++')
VERSION ?= $(firstword $(VERSIONS))
ENV = .venv/$(VERSION)

.PHONY: demo test test-slow test-all lint docs bench bench-check paper clean

demo: $(ENV)/ready           ## Fit data that ship with the project, print the summary and write a report
	$(ENV)/bin/minstein fit dataset:newcomb --model gaussian --robust --out out/newcomb

# Most tests compile more than they compute: without XLA's optimiser they are a third faster, and a file stays with one
# worker, so that what it compiles once serves all of it. Those marked `optimised`, which hold our numbers against exact
# ones or simulate, run as users do.
PYTEST = $(ENV)/bin/python -m pytest -n 2
FAST = XLA_FLAGS=--xla_backend_optimization_level=0 $(PYTEST) --dist loadfile

test: $(ENV)/ready           ## The tests, without the slow ones
	$(PYTEST) --dist loadfile -m "not slow" tests/exact tests/statistical
	$(FAST) -m "not slow and not optimised"

test-slow: $(ENV)/ready      ## The slow tests: statistical ones, and long ones besides
	$(FAST) -m "slow and not optimised"
	$(PYTEST) --dist worksteal -m "slow and optimised" tests

test-all:                    ## The tests on every Python version that is here
	@set -e; for v in $(VERSIONS); do echo "== Python $$v"; $(MAKE) test VERSION=$$v; done

lint: $(ENV)/ready           ## Style, types and import order
	$(ENV)/bin/ruff check .
	$(ENV)/bin/ruff format --check .
	$(ENV)/bin/pyright --pythonpath $(ENV)/bin/python
	$(ENV)/bin/lint-imports

docs: $(ENV)/ready           ## The documentation with its gallery, in out/docs; a warning is an error
	$(ENV)/bin/python -m sphinx --fail-on-warning --keep-going --quiet docs out/docs

bench: $(ENV)/ready          ## Speed and memory, as CPU time and ratios
	$(ENV)/bin/python -m benchmarks

bench-check: $(ENV)/ready    ## A minute of it: wrong numbers, and ratios far from the committed ones, are errors
	$(ENV)/bin/python -m benchmarks --check

EFFORT ?= --quick
paper: $(ENV)/ready          ## The experiments of the paper, in out/paper; EFFORT=--full has enough replications for publication
	$(ENV)/bin/python -m studies paper all --out out/paper $(EFFORT)

$(ENV)/ready: pyproject.toml constraints.txt
	@test -n "$(VERSION)" || { echo "minstein needs Python 3.11 or newer with venv; none of $(CANDIDATES) is."; exit 1; }
	@set -e; for p in $(CANDIDATES); do \
	  if [ "$$($$p -c '$(USABLE)' 2>/dev/null)" = "$(VERSION)" ]; then $$p -m venv $(ENV); break; fi; done
	$(ENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf .venv out docs/gallery
