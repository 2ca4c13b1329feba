#!/bin/sh
# layers.sh [ROOT]: a room uses only the rooms before it, no header includes itself in a circle, and each outside library is
# known to its own rooms alone. The order is docs/architecture.md's.
set -eu

root=${1:-${SG_SRCDIR:-$(dirname "$0")/../..}}
cd "$root/src"

# FILE INCLUDED, one pair a line; <outside.h> keeps its bracket.
includes=$(find . -name '*.[ch]' | sort | sed 's|^\./||' | while read -r file; do
    sed -n -e "s|^ *# *include *\"\([^\"]*\)\".*|$file \1|p" -e "s|^ *# *include *\(<[^>]*\)>.*|$file \1|p" "$file"
done)

printf '%s\n' "$includes" | awk '
    BEGIN {
        n = split("base event http gate metrics config store upstream server proxy admin cli", rooms, " ")
        for (i = 1; i <= n; i++) rank[rooms[i]] = i
        top = n + 1
        allow("<microhttpd.h", "server admin"); allow("<curl/", "upstream"); allow("<hiredis/", "store")
        allow("<yaml.h", "config"); allow("<jansson.h", "admin cli"); allow("<nettle/", "base")
        allow("<gnutls/", "server"); allow("<openssl/", "store")
    }
    function allow(header, list) { owner[header] = " " list " " }
    function room_of(file) { return index(file, "/") ? substr(file, 1, index(file, "/") - 1) : "" }
    function complain(text) { print "src/" $1 ": " text; bad = 1 }
    {
        from = room_of($1)
        if (from != "" && !(from in rank)) { complain("the room " from "/ is not in the order of rooms"); next }
        if (substr($2, 1, 1) == "<") {
            for (header in owner)
                if (index($2, header) == 1 && !(from != "" && index(owner[header], " " from " ")))
                    complain(substr($2, 2) " belongs in" owner[header] "only")
            next
        }
        to = room_of($2)
        if (from == "") next
        if (to == "") complain("includes " $2 " from the top of src; a room uses only rooms")
        else if (!(to in rank)) complain("includes " $2 " of an unknown room")
        else if (rank[to] > rank[from]) complain("includes " $2 ", but " from "/ comes before " to "/")
    }
    END { exit bad }' || failed=1

# tsort prints the members of a circle to stderr and fails.
if ! circles=$(printf '%s\n' "$includes" | awk '$1 ~ /\.h$/ && $2 ~ /\.h$/ && $2 !~ /^</' | tsort 2>&1 >/dev/null); then
    printf '%s\n' "$circles" | sed 's/^tsort: /headers include each other: /'
    failed=1
fi
exit "${failed:-0}"
