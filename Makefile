# `make` alone lists what there is. Everything is installed into .venv, from locked requirements.

VENV := .venv
BIN := $(VENV)/bin
LOCKS := dev demo bench
EXTRAS := s3 sqs rabbitmq bullmq infrai postgresql mysql parquet tune web otel
DEMO_EXTRAS := s3 tune
ARGS ?=
# Tests wait for servers and processes of theirs half of the time.
WORKERS ?= $(shell expr 3 '*' $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) / 2)
SEEDS ?= 100000

.DEFAULT_GOAL := help
.PHONY: help demo check test soak bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/demo.installed ## See it work on an S3 server and a table of its own (two minutes)
	@$(BIN)/bestbefore demo $(ARGS)

check: $(VENV)/dev.installed ## Lint, types, layers and unit tests: before every commit
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/run_tests.py -q -n auto tests/unit $(ARGS)

test: $(VENV)/dev.installed ## What CI runs: the same, and every other test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/run_tests.py -n $(WORKERS) --dist worksteal $(ARGS)

soak: $(VENV)/dev.installed ## Simulate 100,000 schedules on all cores (SEEDS=…)
	PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) $(ARGS)

bench: $(VENV)/bench.installed ## Measure the speed beside other tools
	$(BIN)/python -m bench $(ARGS)

lock: ## Resolve requirements/*.txt again (needs uv; UPGRADE=--upgrade for newer versions)
	@set -e; for name in $(LOCKS); do \
		beside="$$([ $$name = dev ] || echo --constraints requirements/dev.txt)"; \
		extras="$$([ $$name = demo ] && echo $(addprefix --extra=,$(DEMO_EXTRAS)) \
			|| echo $(addprefix --extra=,$(EXTRAS)))"; \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
			--no-emit-index-url --no-emit-find-links $$extras --group $$name $(UPGRADE) $$beside \
			--output-file requirements/$$name.txt pyproject.toml requirements/build.in; \
		echo "locked requirements/$$name.txt"; \
	done

clean: ## Remove .venv and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

$(VENV)/%.installed: requirements/%.txt pyproject.toml | $(BIN)/python
	@echo "installing requirements/$*.txt into $(VENV) (only when it has changed)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --editable .
	@touch $@

# The first Python that is new enough; a half-made environment is removed again.
$(BIN)/python:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			$$python -m venv $(VENV) && exit 0; \
			rm -rf $(VENV); echo "$$python could not make $(VENV), see above" >&2; exit 1; \
		fi; \
	done; echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3" >&2; exit 1
