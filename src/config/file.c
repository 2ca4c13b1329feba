/* file.c - the files that a load reads. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/load.h"

static sg_err_t read_all(int fd, sg_arena_t *arena, const char *path, size_t max_bytes, sg_str_t *out,
                         sg_why_t *why)
{
    sg_buf_t b;
    sg_err_t err = SG_OK;
    ssize_t n = 1;
    sg_buf_init(&b, max_bytes + 65536);
    while (!err && n != 0) {
        size_t got;
        char *room = sg_buf_room(&b, 1, &got);
        n = room ? read(fd, room, got) : -1;
        if (n > 0)
            sg_buf_added(&b, (size_t)n);
        if (sg_buf_len(&b) > max_bytes) {
            sg_why_set(why, "%s is larger than %zu bytes", path, max_bytes);
            err = SG_ERR_FULL;
        } else if (n < 0 && errno != EINTR) {
            sg_why_set(why, "%s: %s", path, sg_errno_text(errno));
            err = SG_ERR_IO;
        }
    }
    if (!err)
        *out = sg_arena_str(arena, sg_buf_str(&b));
    if (b.data)
        sg_wipe(b.data, b.size);
    sg_buf_deinit(&b);
    return err;
}

sg_err_t sg_load_file(sg_arena_t *arena, const char *path, size_t max_bytes, sg_str_t *out, sg_why_t *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    sg_err_t err;
    if (fd < 0) {
        sg_why_set(why, "%s: %s", path, sg_errno_text(errno));
        return SG_ERR_IO;
    }
    if (fstat(fd, &st) == 0 && st.st_size > 0 && (uint64_t)st.st_size > max_bytes) {
        sg_why_set(why, "%s is larger than %zu bytes", path, max_bytes);
        err = SG_ERR_FULL;
    } else {
        err = read_all(fd, arena, path, max_bytes, out, why);
    }
    close(fd);
    return err;
}

/* The hash over all files is a chain, so that it depends on their order too. */
static void add_to_digest(sg_load_t *ld, sg_str_t text)
{
    uint8_t chain[2 * SG_SHA256_BYTES];
    memcpy(chain, ld->digest, SG_SHA256_BYTES);
    sg_sha256(text, chain + SG_SHA256_BYTES);
    sg_sha256(sg_str_n((const char *)chain, sizeof chain), ld->digest);
}

static void remember_file(sg_load_t *ld, const char *path)
{
    if ((ld->file_count & (ld->file_count - 1)) == 0)
        ld->files = sg_realloc(ld->files, (ld->file_count ? ld->file_count * 2 : 1) * sizeof *ld->files);
    ld->files[ld->file_count++] = sg_arena_strndup(ld->arena, sg_str(path));
}

sg_node_t *sg_load_tree(sg_load_t *ld, const char *path, const sg_place_t *at)
{
    sg_place_t whole;
    sg_str_t text;
    sg_why_t why;
    size_t errors = ld->diags->errors;
    sg_node_t *root;
    remember_file(ld, path);
    whole = (sg_place_t){ld->files[ld->file_count - 1], 0, 0};
    if (sg_load_file(ld->scratch, path, SG_TREE_FILE_BYTES_MAX, &text, &why)) {
        sg_load_error(ld, at ? at : &whole, "%s, expected a file of at most 10 MiB that can be read",
                      why.text);
        return NULL;
    }
    add_to_digest(ld, text);
    root = sg_tree_parse(ld->scratch, whole.file, text, ld->diags);
    if (!root && ld->diags->errors == errors)
        sg_load_error(ld, &whole, "the file is empty, expected a YAML map");
    return root;
}
