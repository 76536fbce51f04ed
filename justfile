# SPDX-License-Identifier: Apache-2.0
# Short names for what the README and .ci/run do; every recipe is one command.

# List the recipes.
default:
    @just --list

# Watch pods of an upper cluster run in two lower clusters.
demo *ARGS:
    cargo demo {{ARGS}}

# All tests, with real clusters.
accept *ARGS:
    cargo accept {{ARGS}}

# Everything a change must pass.
ci:
    .ci/run

# Format all crates.
fmt:
    cargo fmt --all

# Lints, as strict as CI's.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Unit and integration tests, without clusters.
test *ARGS:
    cargo test --locked {{ARGS}}

# Damaged inputs to what reads foreign bytes, CASES of each kind.
fuzz CASES="1000000":
    TENSILE_FUZZ_CASES={{CASES}} cargo test --release --locked -p webhook -p multi-scheduler -p virtual-kubelet --test it --test fuzz -- fuzz

# One crate alone: what it declares must be enough to build and test it.
crate NAME:
    cargo test --locked -p {{NAME}}

# Architecture and house rules.
tidy:
    cargo test --locked -p tensile-testkit --test tidy

# Licences, bans and sources of the dependencies.
deny:
    cargo deny --offline --locked check licenses bans sources

# Known vulnerabilities; needs a network.
audit:
    .ci/advisories

# Rewrite the reference pages that are generated from the code.
reference:
    TENSILE_BLESS=1 cargo test --locked -p virtual-node -p webhook -p descheduler -p multi-scheduler -p tensile-testkit --test shipped --test docs

# The book, with mdBook.
docs:
    mdbook build docs

# Check the charts and show what they render.
chart:
    helm lint charts/virtual-node --set lower.existingSecret=lower
    helm template charts/virtual-node --set lower.existingSecret=lower
    helm lint charts/webhook
    helm template charts/webhook
    helm lint charts/descheduler
    helm template charts/descheduler
    helm lint charts/multi-scheduler --set scheduler.image.repository=kube-scheduler
    helm template charts/multi-scheduler --set scheduler.image.repository=kube-scheduler

# One image; TARGET is a stage of the Dockerfile.
image TARGET="virtual-node":
    buildah build --target {{TARGET}} --tag tensile/{{TARGET}} .
