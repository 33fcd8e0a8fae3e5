# Everything a person does here, one verb each; CI calls the same ones.
PYTHON ?= python3
DATA ?= ./var
PORT ?= 8000
DEMO ?= 1
VENV := .venv
PY := $(VENV)/bin/python
# The one torch this was tested with; +rocm and +cpu builds of it count, and one that is already there is kept.
TORCH := torch==2.13.0
export DATA PORT DEMO

.PHONY: up test check format bench lock clean help

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

up: $(VENV)/.run  ## run everything on this machine until Ctrl-C (PORT=8000 DATA=./var DEMO=0)
	@exec $(PY) -m workers.local

test: $(VENV)/.test  ## test everything, with servers of its own
	@$(PY) -m tests.packages
	$(PY) -m pytest

check: $(VENV)/.test  ## style, and who may import whom
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

format: $(VENV)/.test  ## mend the style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.test  ## measure speed and memory, each figure beside a peer or a limit (ONLY=name)
	$(PY) -m bench $(ONLY)

lock: $(VENV)/.test  ## renew the pins in constraints.txt
	$(VENV)/bin/pip install --quiet uv
	$(VENV)/bin/uv pip compile --quiet --universal --all-extras --python-version 3.11 --no-annotate --no-header \
		--no-emit-index-url --no-emit-find-links --output-file constraints.txt pyproject.toml
	@grep -vE '^(torch|triton|nvidia-|cuda-)' constraints.txt > constraints.new && mv constraints.new constraints.txt

clean:  ## remove the virtual environment; data below DATA stays
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt $(TORCH) -e '.[train,web,local]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt $(TORCH) -e '.[train,web,local,test]'
	@touch $@
