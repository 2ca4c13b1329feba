/* page.h - page.html, embedded at build time. */
#ifndef SG_ADMIN_PAGE_H
#define SG_ADMIN_PAGE_H

#include <stddef.h>

extern const char sg_admin_page_html[];
extern const size_t sg_admin_page_html_len;

#endif
