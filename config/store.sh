#!/bin/sh
# Starts the store's server in a container. The password comes from a mounted file and goes in through standard input,
# so that it is neither in the image nor in the list of processes. `exec`: the server gets the container's signals.
set -eu
exec valkey-server /etc/valkey/valkey.conf --bind 0.0.0.0 --dir /data "$@" - <<END
requirepass "$(cat /run/secrets/store-password)"
END
