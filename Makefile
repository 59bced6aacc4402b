PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test tests-of-every-day test-end-to-end test-all lint docs dist benchmark clean

install: .venv/.installed

# The stamps are older than the files that say what to install only where nothing has changed.
.venv/.installed: pyproject.toml constraints.txt
	@echo "installing everything into .venv, which takes a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch .venv/.demo $@

# What the demo and its page need is a fraction of that.
.venv/.demo: pyproject.toml constraints.txt
	@echo "installing into .venv, which takes a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,serve]'
	touch $@

demo: .venv/.demo
	$(BIN)/lbhash demo

# Types are checked while the tests run.
test: install
	$(MAKE) -j 2 lint tests-of-every-day

tests-of-every-day: install
	$(BIN)/python -m pytest -n logical --dist loadfile -m 'not slow and not end_to_end'

# Whole programs, studies, browsers and other systems, which are too long for every day.
test-end-to-end: install
	$(BIN)/python -m pytest -n logical --dist loadfile -m 'end_to_end and not slow'

test-all: install lint
	$(BIN)/python -m pytest -n logical --dist loadfile -m '' --hypothesis-profile=default

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Warnings are errors, links and headings are checked, and nothing is loaded from a network.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "to read it: $(BIN)/python -m http.server --directory site"

dist: install
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

benchmark: install
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/guided_step.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/service.py

clean:
	rm -rf .venv demo site dist
