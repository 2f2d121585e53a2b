# What a person types. Every target makes the environment first, which takes no time once it is there.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests demo test test-full test-unit test-ahead lint types layers docs pictures soak bench side-by-side lock clean checked archive

# Tests and the demo start hundreds of Python processes: bytecode is kept, even where the shell says otherwise.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
KEEP ?= 1
KILLS ?= 200
SEED ?= 1
# Unit tests lay out some 40,000 small files; memory is several times faster at that than a disk.
MEMORY = $(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 1000000 { print "/dev/shm" }' | grep . || echo /tmp)

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | \
		while IFS=$$'\t' read -r target text; do printf '  \033[1m%-10s\033[0m %s\n' "$$target" "$$text"; done

setup: ## make .venv from the lock and make sure of Java
	@scripts/setup.sh

setup-tests: ## the same, and the programs that the tests need (Chromium, Maven, PostgreSQL's server, promtool, nginx)
	@scripts/setup.sh --tests

checked: # what the tests need, and what they are not needed for: the class archive is made beside the checks
	@scripts/setup.sh --tests --without-archive
	@$(MAKE) --no-print-directory -j 2 -o setup -o setup-tests archive lint types layers

archive: # of the classes that Spark drivers load
	@scripts/setup.sh

demo: setup ## a stream, its health and an exactly-once drill, in Airflow (KEEP=0: stop by itself; status 0 only if passed)
	@KEEP=$(KEEP) $(BIN)/python scripts/demo

test: checked ## everything that CI runs, on a machine that has nothing installed before
	@$(BIN)/python -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder --durations=60

test-full: checked ## every combination, and 10,000 generated inputs for each parser of files (hours)
	@$(BIN)/python -m pytest tests --full -m "not generated" -n 2 --dist loadfile --no-loadscope-reorder --durations=60
	@$(BIN)/python -m pytest tests/unit --full -m generated -n 2 --dist worksteal --hypothesis-profile=nightly --timeout=3600

test-unit: setup ## the tests without Spark and Airflow (45 s)
	@temporary=$$(mktemp -d -p $(MEMORY)) && trap 'rm -rf "$$temporary"' EXIT && mkdir "$$temporary/claims" && \
		tests() { \
			$(BIN)/python -m pytest tests/unit -q --claims="$$temporary/claims" --basetemp="$$temporary/$$1" \
				--hypothesis-profile=quick -o console_output_style=classic \
				-p no:schemathesis -p no:anyio -p no:logging -p no:cacheprovider; \
		} && { tests second >"$$temporary/log" 2>&1 & } && \
		{ tests first; first=$$?; wait $$!; second=$$?; cat "$$temporary/log"; exit $$((first | second)); }

test-ahead: setup ## the unit tests with the clock 40 days ahead: what they prove may not depend on today's date
	@LD_PRELOAD=$$(ls $(CURDIR)/.venv/lib/python3*/site-packages/libfaketime/vendor/libfaketime/src/libfaketime.so.1) \
		FAKETIME=+40d FAKETIME_DONT_FAKE_MONOTONIC=1 \
		$(BIN)/python -m pytest tests/unit -n 2 --dist worksteal --hypothesis-profile=quick -p no:schemathesis -p no:anyio -p no:logging

lint: setup ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: setup ## mypy, strict
	@$(BIN)/mypy

layers: setup ## dependencies point one way
	@$(BIN)/lint-imports

docs: setup ## write the reference pages from the code
	@PYTHONPATH=scripts $(BIN)/python -m reference_pages

pictures: setup-tests ## take the pictures in docs/images again, from a running Airflow (20 min)
	@$(BIN)/python -m pytest tests/browser --pictures docs/images

soak: setup-tests ## kill a stream KILLS times (200) at random moments of SEED (1), on three sinks (an hour)
	@$(BIN)/python benchmarks/soak/run.py --kills $(KILLS) --seed $(SEED)

bench: setup ## run every benchmark; the figures go to docs/benchmarks.md (QUICK=1: each in a small size, ten minutes)
ifdef QUICK
	@grep -v '^#' benchmarks/quick.txt | while read -r name arguments; do echo "== $$name $$arguments"; \
		$(BIN)/python benchmarks/$$name/run.py $$arguments </dev/null || exit; done
else
	@for run in $(filter-out benchmarks/soak/% benchmarks/side_by_side/%,$(wildcard benchmarks/*/run.py)); do echo "== $$run"; $(BIN)/python $$run || exit; done
endif

side-by-side: setup-tests ## the same jobs in Flink, Kafka Streams and others; installs them in the user's cache folder (30 min)
	@$(BIN)/python benchmarks/side_by_side/run.py

lock: setup ## resolve requirements.txt from pyproject.toml again
	$(BIN)/uv pip compile pyproject.toml --group dev --extra all --extra clock --python-version 3.11 --generate-hashes -o requirements.txt

clean: ## remove caches and the data of every demo; streams' data in var/ stays
	rm -rf var/demo var/demo-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
