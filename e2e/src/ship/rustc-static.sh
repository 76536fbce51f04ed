#!/bin/sh
# rustc, as cargo calls it for the crates of the workspace (RUSTC_WORKSPACE_WRAPPER): programs are linked into one static file.
# What they depend on does not come by here, so it is taken as it was compiled for all else.
case " $* " in
*" --crate-type bin "*) set -- "$@" -C target-feature=+crt-static -C strip=symbols ;;
esac
exec "$@"
