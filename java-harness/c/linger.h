/* The end of every program. */
#ifndef LINGER_H
#define LINGER_H

#include "options.h"

/* Ends the process with SIGALRM some time after --timeout, should a call never return; call it first. */
void limit_lifetime(const struct options *options, long otherwise_seconds);

/* Waits, with the sockets open, until stdin is closed, at most the seconds of --linger. */
void linger(const struct options *options);

#endif
