# The everyday commands. The harness behind them: .venv/bin/python -m harness VERB key=value...

PYTHON ?= python3
VENV := .venv
TARGET ?= sim
PLANS ?= out
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.ready

# Installs what pyproject.toml lists for the tree itself and the dev extra, at the versions of constraints.txt.
# The tree is not installed: every command runs from its root.
DEPENDENCIES := import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*p["dependencies"], *p["optional-dependencies"]["dev"], sep="\n")

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-refresh hunt validate fit lint test native wheel bundle hashes clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP) ## make the virtual environment (.venv), once

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -c '$(DEPENDENCIES)' > $(VENV)/dependencies.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $(VENV)/dependencies.txt
	touch $@

demo: setup ## measure the main screen on the simulator and print its table
	$(RUN) -m harness screen
	@$(RUN) -m harness report > out/demo.md && tail -n 1 out/demo.md

demo-refresh: setup ## bring README.md, reports/ and records/first-light to the latest demo run; older records there go
	$(RUN) -m harness report target=readme

hunt: setup ## the night run: 20,000 adversarial schedules of each protocol, recorded under out/hunts
	$(RUN) -m harness hunt budget=20000

validate: setup ## the correctness matrix on the simulator, in full; recorded under out
	$(RUN) -m harness validate 'backends=[sim]'

fit: setup ## fit the simulated machine to the published main table again; records and report under out/
	$(RUN) -m harness fit
	$(RUN) -m harness fit report

lint: setup ## ruff and mypy
	$(RUN) -m ruff check .
	$(RUN) -m mypy

test: setup lint ## lint, then every test; what this machine lacks is skipped and listed
	$(RUN) -m pytest -n auto --dist loadfile

native: setup ## build the native library: TARGET=sim (default) or TARGET=cuda
	$(RUN) -c 'import sys; from afdep import build; print({"sim": build.build, "cuda": build.build_cuda}[sys.argv[1]]())' $(TARGET)

wheel: setup ## build a wheel into dist; TARGET=cuda carries the built CUDA library, for nodes without a compiler
	WHEEL_TARGET=$(TARGET) $(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

bundle: setup ## every plan of PLANS (default: out), with trees and built libraries, as one folder for an offline node: out/bundle
	$(RUN) -m harness bundle launcher.out=$(PLANS)

hashes: setup ## refresh vendor/HASHES from the kernel tree and the installed nvcc
	$(RUN) vendor/hashes.py --write

clean: ## remove build outputs and caches; records under out/ stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
