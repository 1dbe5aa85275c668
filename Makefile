# What one can do here; `make help` prints it. The work is done by scripts/, which say what they install before they do.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run join test twin twin-record test-vm test-arm64 simulate soak chaos bench bench-cluster bench-pressure bench-scale fuzz mutants dist fmt lint unit live clean-runs

SEED ?= 1
PODS ?= 20
HOURS ?= 1
KILLS ?= 50
COUNT ?= 40

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## a standalone node with two pods on a private containerd, until Ctrl-C (root, Debian)
	@exec scripts/run.sh

join: ## the same as the node of a cluster from KUBEBUILDER_ASSETS, for kubectl, until Ctrl-C (root, Debian)
	@JOIN=yes exec scripts/run.sh

test: ## everything that can be tested here; installs what is missing when root
	@exec scripts/test.sh

twin: ## the same pods on a node of upstream's kubelet from KUBEBUILDER_ASSETS and on one of ours, and what differs: make twin SEED=1 COUNT=40 (root, Debian)
	@SEED=$(SEED) COUNT=$(COUNT) exec scripts/twin.sh

twin-record: ## what upstream's kubelet does in the scenarios of tests/twin/recorded, kept for `make test` (root, Debian)
	@RECORD=1 COUNT=0 exec scripts/twin.sh

test-vm: ## the systemd unit as shipped, in a virtual machine with cgroup v2 (root, Debian)
	@exec tests/vm/run.sh

test-arm64: ## the unit tests of arm64, emulated (QEMU=<file>; a compiler for arm64)
	@exec scripts/test-arm64.sh

simulate: ## the same agent on a simulated node: make simulate SEED=1 PODS=20
	@exec scripts/simulate.sh --seed $(SEED) --pods $(PODS)

soak: ## seed after seed on the simulated node until one fails or HOURS are over
	@exec scripts/soak.sh $(HOURS)

chaos: ## kills the agent and containerd at random moments, steps the agent's clock, and looks at what became of the pods (root, Debian)
	@SEED=$(if $(filter command line environment,$(origin SEED)),$(SEED)) PODS=$(PODS) KILLS=$(KILLS) exec scripts/chaos.sh

bench: ## memory, processor time and reaction times on a real containerd (root, Debian)
	@exec scripts/bench.sh

bench-cluster: ## what the node of a cluster asks the API server, and how soon that sees what it did
	@exec scripts/bench-cluster.sh

bench-pressure: ## what eviction and the managers cost a quiet node, and how soon a pod goes once memory or a disk runs short
	@exec scripts/bench-pressure.sh

bench-scale: ## what one change costs on a simulated node of 10 to 1,000 pods, the longest turn, the latest probe
	@exec cargo run --profile quick --locked --features sim --example scale

mutants: ## one change at a time to the decisions, which some test has to see; MUTANTS="pod_status ...", SHARD=k/n
	@exec scripts/mutants.sh $(MUTANTS)

fuzz: ## any bytes against what reads hostile input, each target for a minute (a C++ compiler)
	@exec scripts/fuzz.sh

dist: ## packages, static executables, what is in them, checksums: target/dist
	@exec scripts/dist.sh

fmt: ## formats the sources
	cargo fmt

lint: ## formatting and lints, as `make test` asks for them
	cargo fmt --check
	cargo clippy --all-targets --features sim,profiling -- -D warnings

unit: ## the tests that need neither root nor a runtime
	cargo test --features sim,profiling --lib

live: ## the tests on a real containerd alone (root, Debian)
	@exec scripts/test.sh live

clean-runs: ## takes down what runs and tests left when they were killed
	@scripts/testenv.sh reap target/run
	@scripts/testenv.sh reap target/chaos
	@scripts/testenv.sh reap target/env
	@for run in target/twin/*/; do scripts/testenv.sh reap "$$run"; done
