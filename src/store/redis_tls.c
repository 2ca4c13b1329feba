#include "store/redis_tls.h"

#include <stdio.h>

#ifdef HAVE_HIREDIS_SSL

#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>

/* One for the process: reading the authorities takes some ms, too long for each attempt of an outage. */
static SSL_CTX *shared;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_shared(void)
{
    shared = SSL_CTX_new(TLS_client_method());
    if (!shared)
        return;
    (void)SSL_CTX_set_min_proto_version(shared, TLS1_2_VERSION);
    (void)SSL_CTX_set_default_verify_paths(shared);
    SSL_CTX_set_verify(shared, SSL_VERIFY_PEER, NULL);
    /* hiredis' buffer may move between two attempts to write it. */
    (void)SSL_CTX_set_mode(shared, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

bool sg_redis_tls_is_built(void)
{
    return true;
}

/* RFC 6066 section 3: addresses are not sent as server names. */
static bool expect_host(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    ERR_clear_error();
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

bool sg_redis_tls_start(redisContext *c, const char *host, sg_redis_tls_t **tls, char *why, size_t why_size)
{
    (void)pthread_once(&once, make_shared);
    SSL *ssl = shared ? SSL_new(shared) : NULL;
    ERR_clear_error();
    if (!ssl || !expect_host(ssl, host)) {
        (void)snprintf(why, why_size, "TLS cannot be set up for %s", host);
        SSL_free(ssl);
        return false;
    }
    if (redisInitiateSSL(c, ssl) != REDIS_OK) {
        sg_redis_tls_why(ssl, c->errstr, why, why_size);
        SSL_free(ssl);
        return false;
    }
    *tls = ssl;
    return true;
}

void sg_redis_tls_begin(const sg_redis_tls_t *tls)
{
    if (tls)
        ERR_clear_error();
}

bool sg_redis_tls_wants_read(const sg_redis_tls_t *tls)
{
    return tls && SSL_want_read(tls);
}

bool sg_redis_tls_has_more(const sg_redis_tls_t *tls)
{
    return tls && SSL_pending(tls) > 0;
}

bool sg_redis_tls_shakes_hands(const sg_redis_tls_t *tls)
{
    return tls && !SSL_is_init_finished(tls);
}

void sg_redis_tls_why(const sg_redis_tls_t *tls, const char *other, char *why, size_t why_size)
{
    long verified = tls ? SSL_get_verify_result(tls) : X509_V_OK;
    const char *reason = tls ? ERR_reason_error_string(ERR_peek_error()) : NULL;
    if (verified != X509_V_OK)
        (void)snprintf(why, why_size, "certificate not accepted: %s",
                       X509_verify_cert_error_string(verified));
    else if (reason || sg_redis_tls_shakes_hands(tls))
        (void)snprintf(why, why_size, "TLS: %s", reason ? reason : "the server ended the handshake");
    else
        (void)snprintf(why, why_size, "%s", other);
}

#else

bool sg_redis_tls_is_built(void)
{
    return false;
}

bool sg_redis_tls_start(redisContext *c, const char *host, sg_redis_tls_t **tls, char *why, size_t why_size)
{
    (void)c, (void)host, (void)tls;
    (void)snprintf(why, why_size, "%s", SG_REDIS_TLS_MISSING);
    return false;
}

void sg_redis_tls_begin(const sg_redis_tls_t *tls)
{
    (void)tls;
}

bool sg_redis_tls_wants_read(const sg_redis_tls_t *tls)
{
    (void)tls;
    return false;
}

bool sg_redis_tls_has_more(const sg_redis_tls_t *tls)
{
    (void)tls;
    return false;
}

bool sg_redis_tls_shakes_hands(const sg_redis_tls_t *tls)
{
    (void)tls;
    return false;
}

void sg_redis_tls_why(const sg_redis_tls_t *tls, const char *other, char *why, size_t why_size)
{
    (void)tls;
    (void)snprintf(why, why_size, "%s", other);
}

#endif
