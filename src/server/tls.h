/* tls.h - the certificate that clients see: loaded and checked as a whole, counted, exchanged on a reload. */
#ifndef SG_SERVER_TLS_H
#define SG_SERVER_TLS_H

#include "base/err.h"
#include "config/config.h"

typedef struct sg_tls sg_tls_t;

/* Reads certificate chain, key and client CA of server.tls. NULL with a sentence: a file cannot be read, is
 * not PEM, or the key is not the certificate's; or libmicrohttpd was built without TLS. Main thread. */
sg_tls_t *sg_tls_load(const sg_server_conf_t *conf, sg_why_t *why);
/* sg_config_load and sg_tls_load in one: the config and, when it asks for TLS, *tls. NULL: *diags say why. */
sg_config_t *sg_tls_config_load(const char *path, sg_metrics_t *metrics, sg_diags_t *diags, sg_tls_t **tls);
sg_tls_t *sg_tls_ref(sg_tls_t *t); /* any thread; NULL is fine; returns t */
void sg_tls_unref(sg_tls_t *t);    /* any thread; NULL is fine */

#endif
