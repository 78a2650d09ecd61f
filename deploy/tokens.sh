#!/bin/sh
# Makes tokens for deploy/compose.yaml: one that may do everything, one with which Prometheus reads. Run as root, since each
# file must belong to the user of its container, and the service refuses a file that others can read.
set -eu
secrets="$(cd "$(dirname "$0")" && pwd)/secrets"
if [ -e "$secrets" ]; then echo "error: $secrets is there already; remove it to make new tokens" >&2; exit 1; fi
token() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
umask 077
mkdir "$secrets"
admin="$(token)" reader="$(token)"
printf '%s admin *\n%s read *\n' "$admin" "$reader" > "$secrets/tokens"
printf '%s' "$reader" > "$secrets/prometheus-token"
chown 10001:10001 "$secrets/tokens"
chown 65534:65534 "$secrets/prometheus-token"
chmod 711 "$secrets"
echo "admin token: $admin"
