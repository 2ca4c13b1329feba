/* check.c - slotgate check: every finding of a config file, or what the file may hold. */
#include <getopt.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "config/config.h"
#include "server/tls.h"

static const char usage[] =
    "usage: slotgate check -c FILE [--print] [--json]\n       slotgate check --schema\n";

typedef struct {
    const char *path;
    bool print, schema, json;
} options_t;

static bool read_options(int argc, char **argv, options_t *o)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"print", no_argument, NULL, 'p'},
                                            {"schema", no_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        switch (c) {
        case 'c': o->path = optarg; break;
        case 'p': o->print = true; break;
        case 's': o->schema = true; break;
        case 'j': o->json = true; break;
        default: return false;
        }
    }
    /* The schema is one text: what else is asked for would be left out without a word. */
    return optind == argc && (o->schema ? !o->path && !o->print && !o->json : o->path != NULL);
}

static const char *level_name(sg_diag_level_t level)
{
    switch (level) {
    case SG_DIAG_ERROR: return "error";
    case SG_DIAG_WARNING: return "warning";
    case SG_DIAG_INACTIVE: return "inactive";
    }
    return "error";
}

static void add_config(sg_buf_t *out, const sg_config_t *config)
{
    sg_buf_t text;
    sg_config_text(config, &text);
    sg_buf_z(out, ",\"config\":");
    sg_buf_json(out, sg_buf_str(&text));
    sg_buf_deinit(&text);
}

/* config: NULL when it is not to be shown. */
static void print_json(const sg_diags_t *d, const sg_config_t *config)
{
    sg_buf_t out;
    sg_buf_init(&out, (size_t)1 << 31);
    sg_buf_printf(&out, "{\"ok\":%s,\"findings\":[", d->errors ? "false" : "true");
    for (size_t i = 0; i < d->count; i++) {
        sg_buf_z(&out, i ? ",{\"file\":" : "{\"file\":");
        sg_buf_json(&out, sg_str(d->at[i].file));
        sg_buf_printf(&out, ",\"line\":%u,\"column\":%u,\"level\":\"%s\",\"text\":", d->at[i].line,
                      d->at[i].column, level_name(d->at[i].level));
        sg_buf_json(&out, sg_str(d->at[i].text));
        sg_buf_char(&out, '}');
    }
    sg_buf_char(&out, ']');
    if (config)
        add_config(&out, config);
    sg_buf_z(&out, "}\n");
    (void)fwrite(out.data + out.start, 1, sg_buf_len(&out), stdout);
    sg_buf_deinit(&out);
}

static int check(const options_t *o)
{
    sg_diags_t diags = {0};
    sg_tls_t *tls;
    sg_config_t *config = sg_tls_config_load(o->path, NULL, &diags, &tls);
    if (o->json)
        print_json(&diags, o->print ? config : NULL);
    else
        sg_diags_print(&diags, stderr);
    if (config && !o->json && o->print)
        sg_config_print(config, stdout);
    else if (config && !o->json)
        puts("configuration OK");
    sg_diags_deinit(&diags);
    sg_config_unref(config);
    sg_tls_unref(tls);
    return config ? SG_EXIT_OK : SG_EXIT_CONFIG;
}

int sg_cli_check(int argc, char **argv)
{
    options_t o = {0};
    if (!read_options(argc, argv, &o)) {
        fputs(usage, stderr);
        return SG_EXIT_USAGE;
    }
    if (!o.schema)
        return check(&o);
    sg_config_schema_print(stdout);
    return SG_EXIT_OK;
}
