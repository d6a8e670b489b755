#include "options.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

void die(const char *call)
{
    perror(call);
    exit(1);
}

static bool is_option(const char *argument)
{
    return strncmp(argument, "--", 2) == 0;
}

static bool is_listed(const char *name, const char *known)
{
    size_t length = strlen(name);
    for (const char *at = known; (at = strstr(at, name)) != NULL; at++) {
        bool starts = at == known || at[-1] == ' ';
        if (starts && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

struct options options_parse(int argc, char **argv, const char *known)
{
    for (int i = 1; i < argc; i++) {
        if (!is_option(argv[i]) || !is_listed(argv[i] + 2, known))
            usage_error("unknown option %s; there are: %s", argv[i], known);
        if (i + 1 < argc && !is_option(argv[i + 1]))
            i++;
    }
    return (struct options){argc, argv};
}

const char *options_get(const struct options *options, const char *name)
{
    for (int i = 1; i < options->argc; i++) {
        if (is_option(options->argv[i]) && strcmp(options->argv[i] + 2, name) == 0) {
            bool has_value = i + 1 < options->argc && !is_option(options->argv[i + 1]);
            return has_value ? options->argv[i + 1] : "";
        }
    }
    return NULL;
}

bool options_has(const struct options *options, const char *name)
{
    return options_get(options, name) != NULL;
}

const char *options_text(const struct options *options, const char *name, const char *otherwise)
{
    const char *text = options_get(options, name);
    return text ? text : otherwise;
}

long options_number(const struct options *options, const char *name, long otherwise)
{
    const char *text = options_get(options, name);
    if (text == NULL)
        return otherwise;
    char *end;
    long number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        usage_error("--%s needs a whole number, not '%s'", name, text);
    return number;
}

int64_t options_seconds(const struct options *options, const char *name, long otherwise)
{
    return (int64_t)options_number(options, name, otherwise) * 1000000000;
}

struct sockaddr_in options_endpoint(const struct options *options, const char *name, const char *otherwise)
{
    const char *text = options_text(options, name, otherwise);
    const char *colon = text ? strrchr(text, ':') : NULL;
    char address[INET_ADDRSTRLEN] = "";
    struct sockaddr_in endpoint = {.sin_family = AF_INET};
    if (colon != NULL && (size_t)(colon - text) < sizeof(address)) {
        memcpy(address, text, (size_t)(colon - text));
        endpoint.sin_port = htons((uint16_t)atoi(colon + 1));
    }
    if (inet_pton(AF_INET, address, &endpoint.sin_addr) != 1)
        usage_error("--%s needs ADDRESS:PORT, not '%s'", name, text ? text : "");
    return endpoint;
}

int options_addresses(const struct options *options, const char *name, const char *otherwise,
                      struct in_addr *addresses, int capacity)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s", options_text(options, name, otherwise));
    int count = 0;
    char *rest = text;
    for (char *one; (one = strsep(&rest, ",")) != NULL; count++) {
        if (count == capacity || inet_pton(AF_INET, one, &addresses[count]) != 1)
            usage_error("--%s needs up to %d addresses, not '%s'", name, capacity, one);
    }
    return count;
}
