/* fuzz_xff.c - X-Forwarded-For lines (one a line of input) behind a trusted peer. What must hold: an
 * untrusted peer is the client; what stands left of the client does not matter; neither does how the
 * list is cut into lines. */
#include "fuzz.h"

#include "gate/identity.h"

static sg_identity_conf_t conf;
static sg_cidr_t trusted[2];

static sg_addr_t addr(sg_str_t text)
{
    sg_addr_t a = {{0}};
    CHECK(sg_addr_parse(text, &a) == SG_OK);
    return a;
}

static void prepare(void)
{
    CHECK(sg_cidr_parse(SG_STR("127.0.0.0/8"), &trusted[0]) == SG_OK);
    CHECK(sg_cidr_parse(SG_STR("2001:db8::/32"), &trusted[1]) == SG_OK);
    conf.trusted = trusted;
    conf.trusted_count = 2;
    conf.ipv6_prefix = 64;
}

static bool is_trusted(const sg_addr_t *a)
{
    return sg_cidr_has(&trusted[0], a) || sg_cidr_has(&trusted[1], a);
}

/* One field a piece of `text`, cut at each `sep`. */
static sg_addr_t client_of(sg_arena_t *arena, sg_str_t first, sg_str_t text, char sep, const sg_addr_t *peer)
{
    sg_fields_t fields = {0};
    sg_str_t line;
    bool peer_trusted;
    if (first.n > 0)
        sg_fields_add(&fields, arena, SG_STR("X-Forwarded-For"), first);
    while (text.n > 0 && sg_str_next(&text, sep, &line))
        sg_fields_add(&fields, arena, SG_STR("X-Forwarded-For"), line);
    sg_addr_t client = sg_client_addr(&conf, peer, &fields, &peer_trusted);
    CHECK(peer_trusted == (!peer || is_trusted(peer)));
    return client;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sg_str_t none = {NULL, 0}, left = SG_STR("6.6.6.6, [2001:db8::6]:6");
    const sg_addr_t peer = addr(SG_STR("127.0.0.1")), stranger = addr(SG_STR("9.9.9.9"));
    sg_arena_t *arena = sg_arena_new(4096);
    sg_tag_t tag;
    prepare();
    char *copy = fuzz_copy(data, size);
    sg_str_t text = sg_str_n(copy, size);
    sg_addr_t client = client_of(arena, none, text, '\n', &peer);
    sg_addr_t same = client_of(arena, left, text, '\n', &peer);
    CHECK(is_trusted(&client) || sg_addr_eq(&client, &same));
    same = client_of(arena, none, text, '\n', &stranger);
    CHECK(sg_addr_eq(&same, &stranger));
    same = client_of(arena, none, text, '\n', NULL);
    CHECK(sg_addr_eq(&same, &client));
    if (!text.n || !memchr(text.p, '\n', text.n)) {
        same = client_of(arena, none, text, ',', &peer);
        CHECK(sg_addr_eq(&same, &client));
    }
    sg_ip_tag(&conf, &client, &tag);
    CHECK(strlen(tag.text) == SG_TAG_CHARS);
    sg_arena_free(arena);
    sg_free(copy);
    return 0;
}
