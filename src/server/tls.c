#include "server/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/server_internal.h"

/* TLS 1.2 and 1.3, forward secrecy, authenticated ciphers only. */
#define PRIORITIES                                                                                           \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:"  \
    "+AES-128-GCM:%SERVER_PRECEDENCE"

enum { CHAIN_MAX = 16, PEM_MAX = 1024 * 1024 };

struct sg_tls {
    atomic_int refs;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_count;
    gnutls_privkey_t key;
    char *client_ca; /* PEM; NULL: clients show no certificate */
};

/* The whole file, NUL-terminated; NULL with a sentence. */
static char *read_pem(const char *path, const char *what, sg_why_t *why)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for somebody who writes */
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > PEM_MAX) {
        sg_why_set(why, "%s %s: %s", what, path,
                   fd < 0 ? sg_errno_text(errno) : "expected a PEM file of at most 1 MiB");
        if (fd >= 0)
            (void)close(fd);
        return NULL;
    }
    char *text = sg_calloc(1, (size_t)st.st_size + 1);
    ssize_t n = read(fd, text, (size_t)st.st_size);
    (void)close(fd);
    if (n == st.st_size)
        return text;
    sg_why_set(why, "%s %s cannot be read", what, path);
    sg_free(text);
    return NULL;
}

static void wipe_free(char *text)
{
    sg_wipe(text, strlen(text));
    sg_free(text);
}

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

static bool load_chain(sg_tls_t *t, const char *path, sg_why_t *why)
{
    char *text = read_pem(path, "server.tls.certificate", why);
    if (!text)
        return false;
    gnutls_datum_t pem = datum(text);
    t->chain_count = CHAIN_MAX;
    int err = gnutls_pcert_list_import_x509_raw(t->chain, &t->chain_count, &pem, GNUTLS_X509_FMT_PEM, 0);
    sg_free(text);
    if (err >= 0)
        return true;
    t->chain_count = 0;
    sg_why_set(why, "server.tls.certificate %s: %s; expected a chain of PEM certificates", path,
               gnutls_strerror(err));
    return false;
}

static bool load_key(sg_tls_t *t, const char *path, sg_why_t *why)
{
    char *text = read_pem(path, "server.tls.key", why);
    if (!text)
        return false;
    gnutls_datum_t pem = datum(text);
    int err = gnutls_privkey_init(&t->key);
    if (err >= 0)
        err = gnutls_privkey_import_x509_raw(t->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    wipe_free(text);
    if (err >= 0)
        return true;
    sg_why_set(why, "server.tls.key %s: %s; expected a PEM private key without a pass phrase", path,
               gnutls_strerror(err));
    return false;
}

static bool key_fits(const sg_tls_t *t)
{
    gnutls_pubkey_t own;
    unsigned char a[64], b[64];
    size_t a_len = sizeof a, b_len = sizeof b;
    if (gnutls_pubkey_init(&own) < 0)
        return false;
    bool same = gnutls_pubkey_import_privkey(own, t->key, 0, 0) >= 0 &&
                gnutls_pubkey_get_key_id(own, GNUTLS_KEYID_USE_SHA256, a, &a_len) >= 0 &&
                gnutls_pubkey_get_key_id(t->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &b_len) >= 0 &&
                a_len == b_len && memcmp(a, b, a_len) == 0;
    gnutls_pubkey_deinit(own);
    return same;
}

static bool load_client_ca(sg_tls_t *t, const char *path, sg_why_t *why)
{
    t->client_ca = read_pem(path, "server.tls.client_ca", why);
    if (!t->client_ca)
        return false;
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    gnutls_datum_t pem = datum(t->client_ca);
    int err = gnutls_x509_crt_list_import2(&list, &n, &pem, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; err >= 0 && i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    if (err < 0)
        sg_why_set(why, "server.tls.client_ca %s: %s; expected PEM certificates", path, gnutls_strerror(err));
    return err >= 0;
}

sg_tls_t *sg_tls_load(const sg_server_conf_t *conf, sg_why_t *why)
{
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        sg_why_set(why, "server.tls: this libmicrohttpd was built without TLS");
        return NULL;
    }
    sg_tls_t *t = SG_NEW(sg_tls_t);
    atomic_init(&t->refs, 1);
    bool ok = load_chain(t, conf->tls_certificate, why) && load_key(t, conf->tls_key, why);
    if (ok && !key_fits(t)) {
        sg_why_set(why, "server.tls.key %s is not the key of server.tls.certificate %s", conf->tls_key,
                   conf->tls_certificate);
        ok = false;
    }
    if (ok && (!conf->tls_client_ca || load_client_ca(t, conf->tls_client_ca, why)))
        return t;
    sg_tls_unref(t);
    return NULL;
}

sg_config_t *sg_tls_config_load(const char *path, sg_metrics_t *metrics, sg_diags_t *diags, sg_tls_t **tls)
{
    sg_why_t why;
    sg_config_t *config = sg_config_load(path, metrics, diags);
    *tls = NULL;
    if (!config || !config->server.tls_certificate)
        return config;
    *tls = sg_tls_load(&config->server, &why);
    if (*tls)
        return config;
    sg_diags_add_error(diags, path, why.text);
    sg_config_unref(config);
    return NULL;
}

sg_tls_t *sg_tls_ref(sg_tls_t *t)
{
    if (t)
        (void)atomic_fetch_add(&t->refs, 1);
    return t;
}

void sg_tls_unref(sg_tls_t *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    for (unsigned i = 0; i < t->chain_count; i++)
        gnutls_pcert_deinit(&t->chain[i]);
    if (t->key)
        gnutls_privkey_deinit(t->key);
    sg_free(t->client_ca);
    sg_free(t);
}

/* --- for libmicrohttpd ----------------------------------------------------------------------------- */

/* GnuTLS asks which certificate to show. The session belongs to a connection, the connection to a client, and
 * the client keeps the credentials that it began with. */
static int on_certificate(gnutls_session_t session, const gnutls_datum_t *ca, int ca_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **chain, unsigned *chain_count, gnutls_privkey_t *key)
{
    sg_client_t *c = sg_client_of(gnutls_session_get_ptr(session));
    (void)ca;
    (void)ca_count;
    (void)algorithms;
    (void)algorithm_count;
    *chain = c->tls->chain;
    *chain_count = c->tls->chain_count;
    *key = c->tls->key;
    return 0;
}

void sg_tls_options(const sg_tls_t *t, struct MHD_OptionItem out[SG_TLS_OPTIONS])
{
    size_t n = 0;
    if (t) {
        out[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)on_certificate};
        out[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES};
    }
    if (t && t->client_ca)
        out[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, t->client_ca};
    out[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

bool sg_tls_client_is_trusted(sg_client_t *c)
{
    if (!c->tls || !c->tls->client_ca || c->certificate_checked)
        return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned status = 0;
    unsigned count = 0;
    if (!info || !gnutls_certificate_get_peers(info->tls_session, &count) || count == 0)
        return false;
    c->certificate_checked = gnutls_certificate_verify_peers2(info->tls_session, &status) >= 0 && status == 0;
    return c->certificate_checked;
}
