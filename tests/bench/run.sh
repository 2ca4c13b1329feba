#!/bin/sh
# run.sh - how fast slotgate is, beside other gateways that do the same job on the same machine. docs/performance.md says
# what the figures mean. Everything it starts lives in a temporary folder, on ports that the kernel gives, and ends with it.
#
#   run.sh [compare] [ROUNDS]    slotgate, nginx with Lua and Redis, nginx alone, HAProxy alone; interleaved (default 5 rounds)
#   run.sh routes [ROUNDS]       CPU of a request with 10 and with 1000 routes
#   run.sh blocks [ROUNDS]       a budget for everybody besides: in the script, and in blocks that are taken ahead
#   run.sh memory                resident memory of idle connections, and of identities in the memory store
#
# More options: --seconds N  --connections N  --only NAME (a row of the table; several times)
#               --build NAME=PROGRAM (several times: compares builds of slotgate)
# SLOTGATE is the program to measure (default: the one of _build/).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin
missing=
need() {
    command -v "$1" >/dev/null || missing="$missing $2"
}
need python3 python3
need wrk wrk
need nginx nginx
need haproxy haproxy
need redis-server redis-server
need redis-cli redis-tools
need taskset util-linux
[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || missing="$missing libnginx-mod-http-lua"
[ -e /usr/share/lua/5.1/resty/core.lua ] || missing="$missing lua-resty-core"
[ -e /usr/share/lua/5.1/nginx/redis.lua ] || missing="$missing lua-nginx-redis"
if [ -n "$missing" ]; then
    echo "run.sh: missing packages; Debian: apt install$missing" >&2
    exit 1
fi
SLOTGATE=${SLOTGATE:-$here/../../_build/slotgate}
if [ ! -x "$SLOTGATE" ]; then
    echo "run.sh: no program at $SLOTGATE (build it, or set SLOTGATE)" >&2
    exit 1
fi
export SLOTGATE PATH
exec setsid -w python3 -B "$here/bench.py" "$@"
