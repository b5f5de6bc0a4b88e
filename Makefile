# `make demo` and `make test` need only Python >= 3.11: they make .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
# What `make demo` needs, what tests need too, and what linters need besides.
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
LINT := $(VENV)/.lint
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: demo demo-bowl demo-link demo-schedule test test-slow test-peers lint docs papers clean

$(MADE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wavefabric needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) -e .
	@touch $@

$(STAMP): pyproject.toml constraints.txt | $(MADE)
	$(INSTALL) -e '.[dev,mpi,schedules,chakra]'
	@touch $(CORE) $@

$(LINT): $(STAMP)
	$(INSTALL) -e '.[lint]'
	@touch $@

# Three runs, a page about each, and an index of them.
demo: $(CORE)
	@mkdir -p demo
	@echo "ultrasound, a fibre link and an all-reduce, two at once: a minute, the first time two"
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target demo-bowl demo-link demo-schedule
	$(BIN)/wavefabric report demo --fabric lightpath:4x8 --bytes 16M --force

# Both at once: much of the first time is compilation, which takes one core.
demo-bowl:
	$(BIN)/python examples/focused_bowl.py demo
demo-link:
	$(BIN)/wavefabric run examples/mdm-15-modes.toml --output demo/mdm-15-modes.h5 --force --no-resume
demo-schedule:
	$(BIN)/python examples/allreduce_on_light.py demo

# Hundreds of short processes start in tests: their bytecode is kept.
test test-slow: export PYTHONDONTWRITEBYTECODE =

# `make test PACKAGE=optics`: the tests of one package, by its folder.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PACKAGE:%=tests/%)

# What `make test` leaves out: commands over ranks, runs killed and started again, most types and sizes, figures of papers.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow and not gpu and not multigpu'

# k-wave-python's published examples against its own NumPy solver, in an environment of their own. The examples
# are fetched, unless KWAVE_EXAMPLES names a folder that has them.
PEERS := .venv-peers
KWAVE := 0.6.2
KWAVE_EXAMPLES ?= $(PEERS)/k-wave-python/examples
test-peers: export KWAVE_EXAMPLES := $(abspath $(KWAVE_EXAMPLES))
test-peers: $(KWAVE_EXAMPLES)
	test -d $(PEERS)/bin || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet -c constraints-kwave.txt -e '.[kwave]' pytest pytest-xdist
	$(PEERS)/bin/python -m pytest -n 2 --dist worksteal -m 'not gpu' -rs tests/peers

$(PEERS)/k-wave-python/examples:
	git clone --quiet --depth 1 --branch v$(KWAVE) https://github.com/waltsims/k-wave-python $(PEERS)/k-wave-python

lint: $(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: $(STAMP)
	$(INSTALL) -e '.[docs]'
	$(BIN)/mkdocs build --strict

# Tables and figures of papers that a CPU can compute, each beside its script: half an hour on two idle cores.
papers: $(STAMP)
	$(BIN)/python papers/fibre/modes.py
	$(BIN)/python papers/fibre/work_precision.py
	$(BIN)/python papers/fibre/q_squared.py --groups 2 --channels 9 --spans 1 --steps 400m,200m,100m --force -o papers/fibre/small_link
	$(BIN)/python papers/ultrasound/local_basis_error.py --ranks 2 --device cpu
	$(BIN)/python papers/ultrasound/stability.py --media 1000
	$(BIN)/python papers/training/published_runs.py
	$(BIN)/python papers/nccl/published_busbw.py
	$(BIN)/python papers/synthesis/topologies.py --time-limit 120
	$(BIN)/python papers/synthesis/topologies.py --time-limit 120 --permutations 3 \
		--rows 'a100x1,a100x2 all-g,mi250x1 all-g,ndv2x4 all-g,dgx2x2 all-g,dgx1-nvlinks all-g'
	$(BIN)/python papers/reconfiguration/study.py
	$(BIN)/python papers/reconfiguration/timeline.py
	$(BIN)/python papers/reconfiguration/published.py
	for machine in p40 cuts dgx2 k80 light; do $(BIN)/python papers/plans/$$machine.py || exit 1; done
	for figure in figure3 figure5 figure6 figure7 figure8 figure10 figure11 sensitivity co_scheduling radices \
		baselines claims; do \
		$(BIN)/python papers/lumorph/$$figure.py || exit 1; \
	done

clean:
	rm -rf demo site build dist .pytest_cache .ruff_cache
