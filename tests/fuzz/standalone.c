/* Runs a fuzz target over kept inputs, without libFuzzer, so that every `make check` does. Speaks TAP.
 *
 * usage: replay_x [FILE...]; without files: all of tests/fuzz/corpus/fuzz_x in the source tree */
#include <dirent.h>

#include "fuzz.h"

#define INPUT_MAX (1u << 20)

static char *names[4096];
static size_t name_count;

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void add_corpus(const char *program)
{
    const char *slash = strrchr(program, '/'), *srcdir = getenv("SG_SRCDIR");
    const char *name = slash ? slash + 1 : program;
    if (strncmp(name, "replay_", 7) == 0)
        name += 7;
    char *folder = sg_asprintf("%s/tests/fuzz/corpus/fuzz_%s", srcdir ? srcdir : ".", name);
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) && name_count < sizeof names / sizeof names[0];) {
        if (entry->d_name[0] != '.')
            names[name_count++] = sg_asprintf("%s/%s", folder, entry->d_name);
    }
    (void)closedir(dir);
    sg_free(folder);
    qsort(names, name_count, sizeof names[0], by_name);
}

static void run(const char *name)
{
    static uint8_t input[INPUT_MAX];
    FILE *file = fopen(name, "rb");
    CHECK(file != NULL);
    size_t n = fread(input, 1, sizeof input, file);
    CHECK(!ferror(file));
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(input, n);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc && name_count < sizeof names / sizeof names[0]; i++)
        names[name_count++] = sg_strdup(argv[i]);
    if (argc < 2)
        add_corpus(argv[0]);
    CHECK(name_count > 0);
    (void)printf("1..%zu\n", name_count);
    for (size_t i = 0; i < name_count; i++) {
        const char *slash = strrchr(names[i], '/');
        run(names[i]);
        (void)printf("ok %zu - %s\n", i + 1, slash ? slash + 1 : names[i]);
        (void)fflush(stdout);
        sg_free(names[i]);
    }
    return 0;
}
