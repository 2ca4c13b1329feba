#!/bin/sh
# listed.sh [ROOT]: every source, test, lint and Lua file stands in Makefile.am; what does not is neither built, run nor shipped.
set -eu

root=${1:-${SG_SRCDIR:-$(dirname "$0")/../..}}
cd "$root"

dirs=
for dir in src lua tests/unit tests/lint tests/fuzz; do
    [ ! -d "$dir" ] || dirs="$dirs $dir"
done
status=0
# shellcheck disable=SC2086
for file in $(find $dirs -name '*.[ch]' -o -name '*.def' -o -name '*.lua' -o -name '*.sh' | sort); do
    # A test program is listed without its .c: automake finds it.
    case $file in
    tests/unit/test_*.c | tests/fuzz/fuzz_*.c) name=${file%.c} ;;
    *) name=$file ;;
    esac
    if ! tr -s ' \t\\' '\n' <Makefile.am | grep -qxF "$name"; then
        echo "$file: not listed in Makefile.am ($name)"
        status=1
    fi
done
exit $status
