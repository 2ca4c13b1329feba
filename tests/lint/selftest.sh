#!/bin/sh
# selftest.sh: each lint must find what it looks for in a tree that is wrong on purpose, and nothing in a tree that is right.
set -eu

lint=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base" "$tree/src/store" "$tree/src/strange" "$tree/tests"

fresh() {
    printf '#ifndef A\n#define A\n#endif\n' >"$tree/src/base/a.h"
    printf '#include "base/a.h"\n#include <hiredis/async.h>\nint b(void)\n{\n    return o->free(1);\n}\n' >"$tree/src/store/b.c"
    printf '/* free() and\n * malloc() in prose */\nvoid *c(void)\n{\n    return f("free(x)"); // free(x)\n}\n' >"$tree/src/base/c.c"
    rm -f "$tree/src/strange/s.c" "$tree/src/base/mem.c"
}

clean() {
    if ! said=$("$lint/$1" "$tree" 2>&1) || [ -n "$said" ]; then
        echo "$1 complains about a clean tree: $said"
        exit 1
    fi
}

# finds SCRIPT TEXT FILE CONTENT: with CONTENT (printf format) in FILE, SCRIPT must fail and say TEXT.
finds() {
    fresh
    # shellcheck disable=SC2059
    printf "$4" >"$tree/src/$3"
    if said=$("$lint/$1" "$tree" 2>&1); then
        echo "$1 passed where it should say: $2"
        exit 1
    fi
    case $said in
    *"$2"*) ;;
    *) echo "$1 should say \"$2\", but said: $said"; exit 1 ;;
    esac
}

fresh
printf 'X = src/base/a.h \\\n\tsrc/base/c.c src/store/b.c\n' >"$tree/Makefile.am"
for script in layers.sh banned.sh listed.sh style.sh; do clean "$script"; done
finds layers.sh 'base/ comes before store/' base/c.c '#include "store/b.h"\n'
finds layers.sh 'from the top of src' base/c.c '#include "worker.h"\n'
finds layers.sh 'belongs in store only' base/c.c '#include <hiredis/hiredis.h>\n'
finds layers.sh 'belongs in store only' main.c '#include <hiredis/hiredis.h>\n'
rm "$tree/src/main.c"
finds layers.sh 'not in the order' strange/s.c '#include "base/a.h"\n'
printf '#include "base/a.h"\n' >"$tree/src/base/loop.h"
finds layers.sh 'include each other' base/a.h '#include "base/loop.h"\n'
rm "$tree/src/base/loop.h"
finds listed.sh 'src/strange/s.c: not listed' strange/s.c 'int s;\n'
finds banned.sh 'sprintf() is banned' base/c.c '    n = sprintf (buf, "x");\n'
finds banned.sh 'malloc() belongs' base/c.c '/* a */ p = (char *)malloc(3);\n'
finds banned.sh 'c.c:3: free()' base/c.c '/* long\n comment */\n free(p);\n'
finds banned.sh 'strcpy() is banned' base/mem.c 'p = malloc(3); strcpy(p, q);\n'
finds style.sh 'blanks at the end' base/c.c 'int a; \n'
finds style.sh 'a tab' base/c.c '\tint a;\n'
finds style.sh '111 columns' base/c.c "$(printf '%0111d' 0)\n"
finds style.sh 'a function of 81 lines' base/c.c "$(printf '{'; for _ in $(seq 80); do printf '\\n'; done; printf '}')\n"
finds style.sh '701 lines' base/c.c "$(for _ in $(seq 701); do printf '\\n'; done)"
finds style.sh 'test_a is defined twice' base/t.py 'def test_a():\n    pass\n\n\ndef test_a(x):\n    pass\n'
rm "$tree/src/base/t.py"
fresh
