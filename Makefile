# make demo: set up, then explain a real distributed failure.   make test: set up, then every test.
# make check: the static gate.   make symptoms: docs/symptoms again from the rules.
# make bench: the numbers of docs/performance.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SATTRIB := $(BIN)/sattrib

.PHONY: demo test check bench fast fuzz clean venv dev symptoms cluster-up cluster-shell cluster-down

$(VENV)/.base: pyproject.toml scripts/make-venv
	sh scripts/make-venv $(PYTHON) $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

venv: $(VENV)/.base
dev: $(VENV)/.dev

demo: $(VENV)/.base
	@sh examples/nvlink/demo $(SATTRIB)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(SATTRIB) rules check

# The pages under docs/symptoms, made again from the rules.
symptoms: $(VENV)/.base
	$(SATTRIB) rules docs docs/symptoms

# A real Slurm cluster in containers (docs/test-cluster.md). SLURM=22.05, 24.11 or 26.05.
SLURM ?= 24.11

cluster-up:
	tests/cluster/cluster up SLURM=$(SLURM)

cluster-shell:
	tests/cluster/cluster shell

cluster-down:
	tests/cluster/cluster down

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

fast: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[fast]'

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.dev
	@$(BIN)/pip install --quiet --disable-pip-version-check atheris || { echo "fuzz: SKIPPED: atheris can't be installed for this Python"; exit 0; }; \
	for target in lines session bundle rules; do \
	    echo "fuzz: $$target for $(FUZZ_SECONDS) s"; \
	    $(BIN)/python tests/fuzz/fuzz.py $$target -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=20 -max_len=8192 -verbosity=0 -print_final_stats=1 || exit 1; \
	done

clean:
	rm -rf $(VENV) .demo .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info build dist
