#!/bin/sh
# style.sh [ROOT]: lengths (function 80 lines, file 700, line 110 columns), blanks at line ends, tabs, unfinished business,
# Python names that are defined twice.
set -eu

root=${1:-${SG_SRCDIR:-$(dirname "$0")/../..}}
cd "$root"

# C: a function begins with its brace in the first column and ends with one.
find src tests -name '*.[ch]' | sort | xargs env LC_ALL=C awk '
    function complain(line, text) { print FILENAME ":" line ": " text; bad = 1 }
    function end_of_file() { if (lines > 700) { print last ": " lines " lines; at most 700"; bad = 1 } }
    FNR == 1 { if (NR > 1) end_of_file(); body = 0 }
    { lines = FNR; last = FILENAME }
    /^\{$/ { body = FNR }
    /^\}/ {
        if (body && FNR - body + 1 > 80) complain(body, "a function of " FNR - body + 1 " lines; at most 80")
        body = 0
    }
    /\t/ { complain(FNR, "a tab; 4 spaces indent") }
    /TODO|FIXME/ { complain(FNR, "unfinished business belongs in no commit") }
    END { end_of_file(); exit bad }' || failed=1

# Everything a person writes: width in characters (continuation bytes of UTF-8 do not count) and blanks at line ends.
# Tables and prose of Markdown may be wide.
dirs=
for dir in src lua tests etc systemd docs .ci; do
    [ ! -d "$dir" ] || dirs="$dirs $dir"
done
# shellcheck disable=SC2086
find $dirs -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.lua' -o -name '*.sh' -o -name '*.py' -o -name '*.md' \
    -o -name '*.yaml' -o -name 'run' \) | sort | xargs env LC_ALL=C awk '
    function complain(text) { print FILENAME ":" FNR ": " text; bad = 1 }
    /[ \t\r]$/ { complain("blanks at the end of the line") }
    FILENAME ~ /\.([ch]|def|lua)$/ {
        plain = $0
        gsub(/[\200-\277]/, "", plain)
        if (length(plain) > 110) complain(length(plain) " columns; at most 110")
    }
    END { exit bad }' || failed=1

# Python: the second definition of a name hides the first, and a test that is hidden does not run.
# shellcheck disable=SC2086
find $dirs -type f -name '*.py' | sort | xargs env LC_ALL=C awk '
    FNR == 1 { delete seen }
    /^(def|class) / {
        name = $2
        sub(/[(:].*/, "", name)
        if (name in seen) { print FILENAME ":" FNR ": " name " is defined twice"; bad = 1 }
        seen[name] = 1
    }
    END { exit bad }' || failed=1
exit "${failed:-0}"
