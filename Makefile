# Few verbs. Everything lands in .venv/, .dpd/ and dist/; nothing is installed elsewhere.
PYTHON ?= python3
BIN := .venv/bin
DPD := $(BIN)/dpd
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

.PHONY: up test check synth clean docs lock lint

up: .venv/.up  ## prefill, decode and router on this machine, and the proof that they work
	@$(DPD) deploy --env local
	@$(DPD) verify --env local
	@printf '\nNext:\n'
	@printf '  %s status --env local       # processes, memory, paths of requests\n' '$(DPD)'
	@printf '  %s destroy --env local      # end them\n' '$(DPD)'
	@printf '  %s plan --env dev           # what the same would be on HyperPod, and cost\n' '$(DPD)'
	@printf '  %s synth --env dev --validate   # its templates and manifests\n' '$(DPD)'

test: .venv/.test lint  ## every test, after linters and type checker
	@$(BIN)/python -m pytest

lint: .venv/.test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright --level error

check: .venv/.up  ## every rule on every file
	@$(DPD) check

synth: .venv/.up  ## all environments into dist/, validated
	@$(DPD) synth --validate

docs: .venv/.up  ## bring generated reference files up to date
	@$(BIN)/python -m dpd.reference
	@$(BIN)/python -m dpd.iam_reference

lock: .venv/.up  ## pin every dependency again after an edit of a .in file
	@for name in requirements requirements-dev; do \
	  $(BIN)/uv pip compile $$name.in -o $$name.txt --universal --python-version 3.11 \
	    --no-emit-index-url --no-header --quiet; done
	@$(BIN)/uv pip compile requirements-engines.in --override requirements-engines.overrides \
	    -o requirements-engines.txt --universal --python-version 3.11 \
	    --no-emit-index-url --no-header --quiet

clean:  ## end what runs on this machine, and remove everything that the other verbs made
	@if [ -d .dpd/local ] && [ -x $(DPD) ]; then for folder in .dpd/local/*; do $(DPD) destroy --env "$${folder##*/}"; done; fi
	rm -rf .venv .dpd dist cdk.out build *.egg-info .pytest_cache .ruff_cache .hypothesis

.venv/bin/uv:
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

.venv/.up: .venv/bin/uv requirements.txt pyproject.toml
	@echo "installing requirements.txt (about 2.2 GB on disk, a minute)"
	@$(UV) -r requirements.txt
	@$(UV) --no-deps -e .
	@touch $@

.venv/.test: .venv/.up requirements-dev.txt
	@$(UV) -r requirements-dev.txt
	@touch $@
