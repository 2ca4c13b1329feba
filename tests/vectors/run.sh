#!/bin/sh
# run.sh: the script gives the answers of the C algorithms, under plain Lua 5.1: to the traces in this folder and to random
# ones (fixed seeds), with keys that live on and with keys that expire.
set -eu

src=${SG_SRCDIR:-$(dirname "$0")/../..}
stream=${SG_BUILDDIR:-.}/tests/vectors/stream
LC_ALL=C
export LC_ALL

command -v lua5.1 >/dev/null || { echo "lua5.1 is not installed"; exit 77; }
cd "$src"
set -- lua/head.lua lua/token_bucket.lua lua/gcra.lua lua/fixed_window.lua lua/sliding_window.lua lua/sliding_log.lua \
    lua/concurrency.lua lua/settle.lua lua/main.lua

answers=$(mktemp)
trap 'rm -f "$answers"' EXIT

echo 'the traces of tests/vectors'
"$stream" vectors tests/vectors/*.json >"$answers"
lua5.1 tests/vectors/run.lua "$@" <"$answers"
echo 'random 1 2000'
"$stream" random 1 2000 >"$answers"
lua5.1 tests/vectors/run.lua "$@" <"$answers"
echo 'steady 100001 1000, keys expire'
"$stream" steady 100001 1000 >"$answers"
lua5.1 tests/vectors/run.lua --expire "$@" <"$answers"
