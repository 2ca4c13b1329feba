/* cost.c - what a request costs, where that is known only after the answer: the route's `cost` was reserved,
 * and the difference is settled once, when the exchange ends. */
#include "proxy/exchange.h"

enum { KIB = 1024 };

void sg_cost_note(sg_exchange_t *ex)
{
    const sg_route_t *route = ex->match.route;
    uint64_t units;

    ex->cost_told = false;
    if (route->cost_from != SG_COST_RESPONSE_HEADER ||
        sg_fields_count(&ex->head.fields, route->cost_header) != 1)
        return;
    const sg_field_t *f = sg_fields_get(&ex->head.fields, route->cost_header);
    if (sg_str_u64(f->value, SG_LIMIT_NUMBER_MAX, &units))
        return;
    ex->cost = (int64_t)units;
    ex->cost_told = true;
}

static bool has_reserved(const sg_exchange_t *ex)
{
    return ex->answered && ex->answer.verdict.allowed && ex->check.cost > 0 &&
           (ex->answer.source == SG_FROM_STORE || ex->answer.source == SG_FROM_LOCAL) &&
           ex->match.route->cost_from != SG_COST_FIXED;
}

void sg_cost_settle(sg_exchange_t *ex)
{
    ex->cost_reserved = has_reserved(ex);
    if (!ex->cost_reserved)
        return;
    if (ex->match.route->cost_from == SG_COST_RESPONSE_KIB) {
        ex->cost = (int64_t)((ex->response_bytes + KIB - 1) / KIB);
        ex->cost_told = true;
    }
    ex->settled = !ex->cost_told                 ? SG_SETTLED_UNKNOWN
                  : ex->cost < ex->check.cost    ? SG_SETTLED_LESS
                  : ex->cost > ex->check.cost    ? SG_SETTLED_MORE
                                                 : SG_SETTLED_SAME;
    sg_count_settlement(ex->proxy->metrics, ex->settled);
    sg_store_settle(ex->proxy->store, &ex->check, &ex->answer, ex->cost_told ? ex->cost : ex->check.cost);
}
