/* redis_tls.h - TLS towards Redis, where the program is built with it (hiredis 1.0 or newer).
 *
 * The server's certificate must be signed by an authority that the system trusts (OpenSSL's defaults; its
 * environment variables SSL_CERT_FILE and SSL_CERT_DIR name others) and be for the name, or the address, that
 * was connected to. hiredis' own context checks no name, so the session is made here. */
#ifndef SG_STORE_REDIS_TLS_H
#define SG_STORE_REDIS_TLS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL where there is none. */
typedef struct ssl_st sg_redis_tls_t;

/* What is said when this program cannot. */
#define SG_REDIS_TLS_MISSING "this program was built without Redis TLS"

/* Of this program, not of a server. */
bool sg_redis_tls_is_built(void);
/* Begins on a connected context, which owns *tls then; blocking contexts have shaken hands when it returns.
 * `host`: the name to be checked. False with a sentence in `why`. */
bool sg_redis_tls_start(redisContext *c, const char *host, sg_redis_tls_t **tls, char *why, size_t why_size);
/* Before each read or write of the context: errors of other connections are none of ours. NULL is fine. */
void sg_redis_tls_begin(const sg_redis_tls_t *tls);
/* After a write that left something: is it to go on with what the peer sends? */
bool sg_redis_tls_wants_read(const sg_redis_tls_t *tls);
/* Bytes that were received and decrypted, and that no socket event will announce. */
bool sg_redis_tls_has_more(const sg_redis_tls_t *tls);
/* Not connected yet, as far as the user of the link is concerned. */
bool sg_redis_tls_shakes_hands(const sg_redis_tls_t *tls);
/* Why it failed; `other`, what hiredis says, when TLS does not know better. */
void sg_redis_tls_why(const sg_redis_tls_t *tls, const char *other, char *why, size_t why_size);

#endif
