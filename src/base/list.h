/* list.h - a doubly linked list whose links lie in the objects. */
#ifndef SG_BASE_LIST_H
#define SG_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_link {
    struct sg_link *prev, *next;
} sg_link_t;

/* From a member back to the object that holds it. */
#define SG_OWNER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void sg_list_init(sg_link_t *head)
{
    head->prev = head->next = head;
}

static inline bool sg_list_empty(const sg_link_t *head)
{
    return head->next == head;
}

/* A link that is on no list: zeroed, or after sg_list_remove. */
static inline bool sg_list_linked(const sg_link_t *l)
{
    return l->next != NULL;
}

static inline void sg_list_push_back(sg_link_t *head, sg_link_t *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

static inline void sg_list_push_front(sg_link_t *head, sg_link_t *l)
{
    l->next = head->next;
    l->prev = head;
    head->next->prev = l;
    head->next = l;
}

/* Safe on a link that is on no list. */
static inline void sg_list_remove(sg_link_t *l)
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

/* The first link, taken off; NULL when empty. */
static inline sg_link_t *sg_list_pop(sg_link_t *head)
{
    sg_link_t *l = head->next;
    if (l == head)
        return NULL;
    sg_list_remove(l);
    return l;
}

/* The body may remove `it`. */
#define SG_LIST_EACH(it, head)                                                                     \
    for (sg_link_t *it = (head)->next, *it##_next = it->next; it != (head);                        \
         it = it##_next, it##_next = it->next)

#endif
