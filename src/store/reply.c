#include "store/reply.h"

#include "base/mem.h"

static redisReply *new_value(const redisReadTask *task, int type)
{
    sg_reply_arena_t *a = task->privdata;
    if (!task->parent)
        a->value_count = a->element_count = a->text_used = 0;
    if (a->value_count == SG_REPLY_VALUES)
        return NULL;
    redisReply *v = &a->values[a->value_count++];
    v->type = type;
    v->integer = 0;
    v->len = 0;
    v->str = NULL;
    v->elements = 0;
    v->element = NULL;
    if (task->parent) {
        redisReply *parent = task->parent->obj;
        parent->element[task->idx] = v;
    }
    return v;
}

static void *create_string(const redisReadTask *task, char *text, size_t n)
{
    redisReply *v = new_value(task, task->type);
    if (!v)
        return NULL;
    sg_reply_arena_t *a = task->privdata;
    size_t room = SG_REPLY_TEXT_BYTES - a->text_used;
    if (room == 0)
        return NULL;
    size_t len = n < room ? n : room - 1;
    v->str = a->text + a->text_used;
    v->len = len;
    memcpy(v->str, text, len);
    v->str[len] = '\0';
    a->text_used += len + 1;
    return v;
}

#if HIREDIS_MAJOR >= 1
static void *create_array(const redisReadTask *task, size_t n)
#else
static void *create_array(const redisReadTask *task, int n)
#endif
{
    redisReply *v = new_value(task, REDIS_REPLY_ARRAY);
    sg_reply_arena_t *a = task->privdata;
    if (!v || (size_t)n > SG_REPLY_VALUES - a->element_count)
        return NULL;
    v->elements = (size_t)n;
    v->element = a->elements + a->element_count;
    memset(v->element, 0, (size_t)n * sizeof(redisReply *));
    a->element_count += (size_t)n;
    return v;
}

static void *create_integer(const redisReadTask *task, long long number)
{
    redisReply *v = new_value(task, REDIS_REPLY_INTEGER);
    if (v)
        v->integer = number;
    return v;
}

static void *create_nil(const redisReadTask *task)
{
    return new_value(task, REDIS_REPLY_NIL);
}

static void free_nothing(void *reply)
{
    (void)reply;
}

#if HIREDIS_MAJOR >= 1
/* RESP3 only; slotgate speaks RESP2, so these are a peer's mistake. */
static void *refuse_double(const redisReadTask *task, double d, char *text, size_t n)
{
    (void)task, (void)d, (void)text, (void)n;
    return NULL;
}

static void *refuse_bool(const redisReadTask *task, int b)
{
    (void)task, (void)b;
    return NULL;
}
#endif

void sg_reply_use_arena(redisReader *reader, sg_reply_arena_t *arena)
{
    static redisReplyObjectFunctions functions = {
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
        .freeObject = free_nothing,
#if HIREDIS_MAJOR >= 1
        .createDouble = refuse_double,
        .createBool = refuse_bool,
#endif
    };
    reader->fn = &functions;
    reader->privdata = arena;
}

bool sg_reply_integers(const redisReply *reply, int64_t *out, size_t max, size_t *count)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > max)
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        if (!reply->element[i] || reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
        out[i] = reply->element[i]->integer;
    }
    *count = reply->elements;
    return true;
}

/* --- errors -------------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    sg_store_err_t kind;
    bool closes;
} error_words[] = {
    {"LOADING", SG_STORE_ERR_LOADING, true},    {"MASTERDOWN", SG_STORE_ERR_LOADING, true},
    {"READONLY", SG_STORE_ERR_READONLY, true},  {"NOAUTH", SG_STORE_ERR_AUTH, true},
    {"WRONGPASS", SG_STORE_ERR_AUTH, true},     {"NOPERM", SG_STORE_ERR_AUTH, false},
    {"OOM", SG_STORE_ERR_OOM, false},           {"WRONGTYPE", SG_STORE_ERR_WRONGTYPE, false},
    {"MOVED", SG_STORE_ERR_MOVED, false},       {"ASK", SG_STORE_ERR_MOVED, false},
    {"CROSSSLOT", SG_STORE_ERR_MOVED, false},   {"CLUSTERDOWN", SG_STORE_ERR_MOVED, false},
    {"TRYAGAIN", SG_STORE_ERR_MOVED, false},
};
#define ERROR_WORDS (sizeof error_words / sizeof error_words[0])

static bool is_code_char(char c)
{
    return (c >= 'A' && c <= 'Z') || sg_ascii_digit(c);
}

/* The next run of capitals (two or more) that stands alone; error codes are such words. */
static bool next_code(sg_str_t *text, sg_str_t *code)
{
    size_t i = 0;
    while (i < text->n) {
        size_t start = i;
        while (i < text->n && is_code_char(text->p[i]))
            i++;
        bool alone = i == text->n || text->p[i] == ' ';
        if (alone && i - start >= 2) {
            *code = sg_str_n(text->p + start, i - start);
            *text = sg_str_n(text->p + i, text->n - i);
            return true;
        }
        while (i < text->n && text->p[i] != ' ' && text->p[i] != '-')
            i++;
        i += i < text->n;
    }
    return false;
}

/* The first word decides. Redis before 7: "ERR Error running script (...): @user_script:7: OOM
 * command not allowed". */
static size_t find_error(sg_str_t text)
{
    sg_str_t code;
    bool framed = sg_str_starts(text, SG_STR("ERR "));
    while (next_code(&text, &code)) {
        for (size_t i = 0; i < ERROR_WORDS; i++)
            if (sg_str_eq(code, sg_str(error_words[i].word)))
                return i;
        if (!framed)
            break;
    }
    return ERROR_WORDS;
}

sg_store_err_t sg_reply_error_kind(sg_str_t text)
{
    size_t i = find_error(text);
    return i < ERROR_WORDS ? error_words[i].kind : SG_STORE_ERR_OTHER;
}

bool sg_reply_error_closes(sg_str_t text)
{
    size_t i = find_error(text);
    return i < ERROR_WORDS && error_words[i].closes;
}

bool sg_reply_is_error(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ERROR;
}

sg_str_t sg_reply_error_text(const redisReply *reply)
{
    if (!sg_reply_is_error(reply))
        return (sg_str_t){NULL, 0};
    return sg_str_n(reply->str, (size_t)reply->len);
}

sg_str_t sg_reply_error_word(const redisReply *reply)
{
    sg_str_t text = sg_reply_error_text(reply), word;
    return sg_str_next(&text, ' ', &word) && word.n <= 32 ? word : (sg_str_t){NULL, 0};
}

bool sg_reply_is_noscript(const redisReply *reply)
{
    return sg_str_starts(sg_reply_error_text(reply), SG_STR("NOSCRIPT"));
}

bool sg_reply_verdict(const sg_check_t *check, const redisReply *reply, sg_verdict_t *out)
{
    int64_t numbers[SG_SCRIPT_REPLY_MAX];
    size_t count;
    return reply && sg_reply_integers(reply, numbers, SG_SCRIPT_REPLY_MAX, &count) &&
           sg_script_decode(check, numbers, count, out) == SG_SCRIPT_OK;
}
