# The everyday commands. The harness behind them: .venv/bin/afdep-bench NAME [ACTION] key=value...

PYTHON ?= python3
VENV := .venv
TARGET ?= sim
RUN := $(VENV)/bin/python
BENCH := $(VENV)/bin/afdep-bench
STAMP := $(VENV)/.ready

# Installs what pyproject.toml lists for the tree itself and the dev extra, at the versions of constraints.txt.
# The tree is not installed: a script, afdep-bench, runs it from its root.
DEPENDENCIES := import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*p["dependencies"], *p["optional-dependencies"]["dev"], sep="\n")

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-refresh validate hunt night lint test docs reports native wheel hashes clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP) ## make the virtual environment (.venv), once

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -c '$(DEPENDENCIES)' > $(VENV)/dependencies.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $(VENV)/dependencies.txt
	printf '#!/bin/sh\nPYTHONPATH="%s" exec "%s/$(RUN)" -P -m harness "$$@"\n' "$(CURDIR)" "$(CURDIR)" > $(BENCH)
	chmod +x $(BENCH)
	touch $@

demo: setup ## measure the main screen on the simulator and print its table
	$(BENCH) screen

demo-refresh: setup ## archive the last run of make demo as records/screen/first-light, and write its report
	$(BENCH) screen archive name=first-light replace=true

validate: setup ## the correctness matrix on the simulator, in full
	$(BENCH) validate 'backends=[sim]'

hunt: setup ## 20,000 adversarial schedules of each protocol
	$(BENCH) hunt budget=20000

night: setup ## every test, those that take long included, and a long hunt
	TESTS_NIGHT=1 $(RUN) -m pytest -n auto --dist loadfile
	$(BENCH) hunt budget=20000

lint: setup ## ruff and mypy
	$(RUN) -m ruff check .
	$(RUN) -m mypy

test: setup lint ## lint, then every test within its CPU seconds; what this machine lacks is skipped and listed
	$(RUN) -m pytest -n auto --dist loadfile -p tests.budget --budget tests/budget.toml

docs: setup ## generate docs/format.md, the completion file and the short report in README.md
	$(RUN) -c 'from harness.desk import usage; print(usage.formats(), end="")' > docs/format.md
	$(RUN) -c 'from harness.desk import desk, usage; print(usage.completion(desk.real()), end="")' > slurm/afdep-bench.bash
	$(BENCH) screen report source=records/screen/h200 to=README.md > /dev/null

reports: setup docs ## write every report of archived records again
	@set -e; for place in records/*/*/ records/*/*.parquet; do \
	    study=$${place#records/}; \
	    $(BENCH) $${study%%/*} report source=$${place%/} | tail -n 1; \
	done

native: setup ## build the native library: TARGET=sim (default) or TARGET=cuda
	$(RUN) -c 'import sys; from afdep import build; print({"sim": build.build, "cuda": build.build_cuda}[sys.argv[1]]())' $(TARGET)

wheel: setup ## build a wheel into dist; TARGET=cuda carries the built CUDA library, for nodes without a compiler
	WHEEL_TARGET=$(TARGET) $(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

hashes: setup ## refresh vendor/HASHES from the kernel tree and the installed nvcc
	$(RUN) vendor/hashes.py --write

clean: ## remove build outputs and caches; records under out/ stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
