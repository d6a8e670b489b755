/* Making UDP sockets. Every function ends the program with a message when a call fails. */
#ifndef UDP_H
#define UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* A socket bound to local; shared allows other sockets on the same address. */
int udp_open(const struct sockaddr_in *local, bool shared);

void udp_connect(int fd, const struct sockaddr_in *peer);

/* Joins on the interface of that name; source may be NULL for any source. */
void udp_join(int fd, struct in_addr group, const char *interface, const struct in_addr *source);

/* interface NULL keeps the route's choice; loop < 0 keeps the system's default. */
void udp_multicast_send(int fd, const char *interface, int ttl, int loop);

void udp_set_nonblocking(int fd);

/* A blocking receive returns EAGAIN after that time. */
void udp_receive_timeout(int fd, int milliseconds);

#endif
