/* head.h - the checks of a head that need no connection; slotgate explain asks them too. Each gives NULL, or
 * why the request is refused. The gateway asks them in this order. */
#ifndef SG_SERVER_HEAD_H
#define SG_SERVER_HEAD_H

#include "server/server.h"

/* max: server.max_header_size. The head is counted from its method to the empty line at its end. */
const sg_refusal_t *sg_head_check_size(size_t max, size_t target, size_t head);
const sg_refusal_t *sg_head_check_method(sg_str_t method);
/* Names and values, Host, framing, Expect: from rq->fields and rq->version_minor; sets rq->host, rq->upload
 * and what belongs to it. */
const sg_refusal_t *sg_head_check_fields(sg_request_t *rq);

#endif
