# Images of the services: one static binary each, nothing else, not root.
#
#   docker build --target SERVICE .            compiles here
#   docker build --target SERVICE-prebuilt .   takes dist/SERVICE; pulls nothing
#
# SERVICE is virtual-node, webhook, descheduler or multi-scheduler.

ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-slim-bookworm AS build
WORKDIR /src
# musl, so that the binary is static; the C parts of the crypto provider need its compiler.
RUN apt-get update \
 && apt-get install -y --no-install-recommends musl-tools \
 && rm -rf /var/lib/apt/lists/*
COPY . .
RUN target="$(uname -m)-unknown-linux-musl" \
 && rustup target add "$target" \
 && CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release --locked --target "$target" -p virtual-node -p webhook -p descheduler -p multi-scheduler \
 && mkdir -p dist && cp "target/$target/release/virtual-node" "target/$target/release/webhook" "target/$target/release/descheduler" "target/$target/release/multi-scheduler" dist/

FROM scratch AS service
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.title="Tensile"
# A number, so that runAsNonRoot can be checked; 65532 is the customary nonroot.
USER 65532:65532

FROM service AS virtual-node
COPY --from=build /src/dist/virtual-node /virtual-node
ENTRYPOINT ["/virtual-node"]

FROM service AS virtual-node-prebuilt
COPY dist/virtual-node /virtual-node
ENTRYPOINT ["/virtual-node"]

FROM service AS webhook
COPY --from=build /src/dist/webhook /webhook
ENTRYPOINT ["/webhook"]

FROM service AS webhook-prebuilt
COPY dist/webhook /webhook
ENTRYPOINT ["/webhook"]

FROM service AS descheduler
COPY --from=build /src/dist/descheduler /descheduler
ENTRYPOINT ["/descheduler"]

FROM service AS descheduler-prebuilt
COPY dist/descheduler /descheduler
ENTRYPOINT ["/descheduler"]

FROM service AS multi-scheduler
COPY --from=build /src/dist/multi-scheduler /multi-scheduler
ENTRYPOINT ["/multi-scheduler"]

FROM service AS multi-scheduler-prebuilt
COPY dist/multi-scheduler /multi-scheduler
ENTRYPOINT ["/multi-scheduler"]
