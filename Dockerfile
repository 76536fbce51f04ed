# SPDX-License-Identifier: Apache-2.0
# Images of the services and of the kubectl plugin: one static binary each, nothing else, not root.
#
#   docker build --target PROGRAM .            compiles here, for the platform that it builds for
#   docker build --target PROGRAM-prebuilt .   takes dist/PROGRAM; pulls nothing
#
# PROGRAM is virtual-node, webhook, descheduler, multi-scheduler or kubectl-tensile.

ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-slim-bookworm AS build
ARG CARGO_AUDITABLE_VERSION=0.7.7
WORKDIR /src
# musl, so that the binary is static; the C parts of the crypto provider and of the allocator need its compiler.
RUN apt-get update \
 && apt-get install -y --no-install-recommends make musl-tools \
 && rm -rf /var/lib/apt/lists/*
# Puts the list of all dependencies into the binary, where scanners look for it.
RUN cargo install --locked "cargo-auditable@$CARGO_AUDITABLE_VERSION"
COPY . .
RUN target="$(uname -m)-unknown-linux-musl" \
 && rustup target add "$target" \
 && CARGO_PROFILE_RELEASE_STRIP=symbols cargo auditable build --release --locked --target "$target" \
    -p virtual-node -p webhook -p descheduler -p multi-scheduler -p kubectl-tensile \
 && mkdir -p dist \
 && for program in virtual-node webhook descheduler multi-scheduler kubectl-tensile; do \
      cp "target/$target/release/$program" dist/ || exit; \
    done

FROM scratch AS program
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Tensile" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# A number, so that runAsNonRoot can be checked; 65532 is the customary nonroot.
USER 65532:65532

FROM program AS virtual-node
LABEL org.opencontainers.image.title="virtual-node" \
      org.opencontainers.image.description="One lower Kubernetes cluster as one node of an upper one"
COPY --from=build /src/dist/virtual-node /virtual-node
ENTRYPOINT ["/virtual-node"]

FROM program AS virtual-node-prebuilt
LABEL org.opencontainers.image.title="virtual-node" \
      org.opencontainers.image.description="One lower Kubernetes cluster as one node of an upper one"
COPY dist/virtual-node /virtual-node
ENTRYPOINT ["/virtual-node"]

FROM program AS webhook
LABEL org.opencontainers.image.title="webhook" \
      org.opencontainers.image.description="Moves constraints of pods that only lower clusters can meet out of the way"
COPY --from=build /src/dist/webhook /webhook
ENTRYPOINT ["/webhook"]

FROM program AS webhook-prebuilt
LABEL org.opencontainers.image.title="webhook" \
      org.opencontainers.image.description="Moves constraints of pods that only lower clusters can meet out of the way"
COPY dist/webhook /webhook
ENTRYPOINT ["/webhook"]

FROM program AS descheduler
LABEL org.opencontainers.image.title="descheduler" \
      org.opencontainers.image.description="Moves pods that their lower cluster has no room for"
COPY --from=build /src/dist/descheduler /descheduler
ENTRYPOINT ["/descheduler"]

FROM program AS descheduler-prebuilt
LABEL org.opencontainers.image.title="descheduler" \
      org.opencontainers.image.description="Moves pods that their lower cluster has no room for"
COPY dist/descheduler /descheduler
ENTRYPOINT ["/descheduler"]

FROM program AS multi-scheduler
LABEL org.opencontainers.image.title="multi-scheduler" \
      org.opencontainers.image.description="Tells a kube-scheduler which lower clusters have room"
COPY --from=build /src/dist/multi-scheduler /multi-scheduler
ENTRYPOINT ["/multi-scheduler"]

FROM program AS multi-scheduler-prebuilt
LABEL org.opencontainers.image.title="multi-scheduler" \
      org.opencontainers.image.description="Tells a kube-scheduler which lower clusters have room"
COPY dist/multi-scheduler /multi-scheduler
ENTRYPOINT ["/multi-scheduler"]

FROM program AS kubectl-tensile
LABEL org.opencontainers.image.title="kubectl-tensile" \
      org.opencontainers.image.description="A kubectl plugin: join, look at, drain and leave lower clusters"
COPY --from=build /src/dist/kubectl-tensile /kubectl-tensile
ENTRYPOINT ["/kubectl-tensile"]

FROM program AS kubectl-tensile-prebuilt
LABEL org.opencontainers.image.title="kubectl-tensile" \
      org.opencontainers.image.description="A kubectl plugin: join, look at, drain and leave lower clusters"
COPY dist/kubectl-tensile /kubectl-tensile
ENTRYPOINT ["/kubectl-tensile"]
