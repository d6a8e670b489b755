/* Command-line options of the form --name value; --name without a value is a flag. A wrong command line ends the
 * program with status 2. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct options {
    int argc;
    char **argv;
};

/* known: names separated by spaces; anything else on the command line is an error. */
struct options options_parse(int argc, char **argv, const char *known);

/* NULL when the option was not given, "" for a flag. */
const char *options_get(const struct options *options, const char *name);
bool options_has(const struct options *options, const char *name);
const char *options_text(const struct options *options, const char *name, const char *otherwise);
long options_number(const struct options *options, const char *name, long otherwise);

/* A duration given in seconds, in nanoseconds. */
int64_t options_seconds(const struct options *options, const char *name, long otherwise);

/* ADDRESS:PORT; an error when neither the option nor otherwise is there. */
struct sockaddr_in options_endpoint(const struct options *options, const char *name, const char *otherwise);

/* Addresses separated by commas; returns how many, at most capacity. */
int options_addresses(const struct options *options, const char *name, const char *otherwise,
                      struct in_addr *addresses, int capacity);

/* Says what is wrong and ends the program. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says which call failed, with errno, and ends the program with status 1. */
_Noreturn void die(const char *call);

#endif
