#!/bin/sh
# embed.sh NAME FILE...: joins the Lua files, in this order, into one C array NAME and its length NAME_len (on stdout).
set -eu

if [ $# -lt 2 ]; then
    echo "usage: embed.sh NAME FILE..." >&2
    exit 64
fi
name=$1
shift

for file; do
    if [ ! -r "$file" ]; then
        echo "embed.sh: $file cannot be read" >&2
        exit 1
    fi
done

printf '/* Made by lua/embed.sh. */\n#include "store/redis_script.h"\n\nconst char %s[] = {\n' "$name"
cat "$@" | od -An -v -tx1 | sed -e 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
printf '0x00};\nconst size_t %s_len = sizeof(%s) - 1;\n' "$name" "$name"
