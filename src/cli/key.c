/* key.c - slotgate key: make an API key, or hash one. The clear key is shown once and kept nowhere. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/cli.h"
#include "http/field.h"

enum { KEY_CHARS = 32, STDIN_MAX = 8192 }; /* 32 of 62 characters: 190 bits */

static void print_line(const char *id, sg_str_t key)
{
    uint8_t digest[SG_SHA256_BYTES];
    char hex[SG_SHA256_HEX + 1] = {0};
    sg_sha256(key, digest);
    sg_hex(digest, sizeof digest, hex);
    printf("- {id: %s, sha256: %s}\n", id, hex);
}

static int key_new(void)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    char key[4 + KEY_CHARS + 1] = "sgk_";
    for (size_t i = 0; i < KEY_CHARS; i++)
        key[4 + i] = alphabet[sg_random_below(sizeof alphabet - 1)];
    key[4 + KEY_CHARS] = '\0';
    printf("key: %s\n", key);
    print_line("new", sg_str(key));
    if (isatty(STDOUT_FILENO))
        fputs("The key is shown this once. The line goes under tenants: NAME: keys: in the config; rename "
              "its id.\n",
              stderr);
    sg_wipe(key, sizeof key);
    return SG_EXIT_OK;
}

/* One line's end belongs to the file, not to the key. */
static sg_str_t without_line_end(sg_str_t s)
{
    if (s.n && s.p[s.n - 1] == '\n')
        s.n--;
    if (s.n && s.p[s.n - 1] == '\r')
        s.n--;
    return s;
}

/* What is wrong with a key; NULL when nothing is. A digest of what no header field can carry would only ever
 * answer 401. */
static const char *key_fault(sg_str_t key)
{
    if (key.n > STDIN_MAX)
        return "the key is longer than 8192 bytes";
    if (key.n == 0)
        return "expected a key on standard input";
    if (!sg_is_field_value(key) || sg_str_trim(key).n != key.n)
        return "expected one line without control bytes and without spaces at its ends: no request can carry "
               "this key";
    return NULL;
}

static int key_hash(void)
{
    char text[STDIN_MAX + 3]; /* a key and \r\n; one more is too long */
    sg_str_t key = without_line_end(sg_str_n(text, fread(text, 1, sizeof text, stdin)));
    const char *fault = key_fault(key);
    if (fault)
        fprintf(stderr, "slotgate key hash: %s\n", fault);
    else
        print_line("hashed", key);
    sg_wipe(text, sizeof text);
    return fault ? SG_EXIT_USAGE : SG_EXIT_OK;
}

int sg_cli_key(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "new") == 0)
        return key_new();
    if (argc == 2 && strcmp(argv[1], "hash") == 0)
        return key_hash();
    fputs("usage: slotgate key new | slotgate key hash\n", stderr);
    return SG_EXIT_USAGE;
}
