# Few verbs. Everything lands in .venv/ and dist/; nothing is installed elsewhere.
PYTHON ?= python3
BIN := .venv/bin
DPD := $(BIN)/dpd
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

.PHONY: up test check synth clean docs lock lint

up: .venv/.up  ## install, check, plan and synthesise the dev environment
	@$(DPD) check
	@$(DPD) plan --env dev
	@$(DPD) synth --env dev --validate
	@printf '\nTemplates and manifests of dev are in dist/dev.\nNext:\n'
	@printf '  edit config/environments/dev.yaml and config/models/llama-3.3-70b.yaml\n'
	@printf '  %s manifests --env dev                     # the endpoint that the operator runs\n' '$(DPD)'
	@printf '  %s rules KVC001                            # what a finding means\n' '$(DPD)'
	@printf '  source %s/activate && cdk deploy -c env=dev --all   # needs AWS credentials, costs money\n' '$(BIN)'

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

clean:  ## remove everything that the other verbs made
	rm -rf .venv dist cdk.out build *.egg-info .pytest_cache .ruff_cache .hypothesis

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
