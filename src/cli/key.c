/* key.c - slotgate key: make an API key, or hash one. The clear key is shown once and kept nowhere. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/cli.h"

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

static int key_hash(void)
{
    char key[STDIN_MAX + 1];
    size_t n = fread(key, 1, sizeof key, stdin);
    if (n > STDIN_MAX) {
        fprintf(stderr, "slotgate key hash: the key is longer than %d bytes\n", STDIN_MAX);
        return SG_EXIT_USAGE;
    }
    if (n && key[n - 1] == '\n')
        n--;
    if (n == 0) {
        fputs("slotgate key hash: expected a key on standard input\n", stderr);
        return SG_EXIT_USAGE;
    }
    print_line("hashed", sg_str_n(key, n));
    sg_wipe(key, sizeof key);
    return SG_EXIT_OK;
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
