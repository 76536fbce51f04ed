#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rustc, as cargo calls it for the crates of the workspace (RUSTC_WORKSPACE_WRAPPER): programs are linked into one static file.
# What they depend on does not come by here, so it is taken as it was compiled for all else.
case " $* " in
# Cargo asks what the compiler can do: an answer about static files would be that there are no procedural macros.
*" --crate-name ___ "*) ;;
*" --crate-type bin "*) set -- "$@" -C target-feature=+crt-static -C strip=symbols ;;
esac
exec "$@"
