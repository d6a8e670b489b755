#include "udp.h"

#include "options.h"

#include <fcntl.h>
#include <net/if.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { RECEIVE_BUFFER_BYTES = 4 << 20 };

static void set_option(int fd, int level, int name, const void *value, socklen_t length, const char *what)
{
    if (setsockopt(fd, level, name, value, length) != 0)
        die(what);
}

static int index_of(const char *interface)
{
    unsigned index = if_nametoindex(interface);
    if (index == 0)
        die(interface);
    return (int)index;
}

int udp_open(const struct sockaddr_in *local, bool shared)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        die("socket");
    int on = 1;
    if (shared)
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on), "SO_REUSEADDR");
    int bytes = RECEIVE_BUFFER_BYTES;
    set_option(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes), "SO_RCVBUF");
    if (bind(fd, (const struct sockaddr *)local, sizeof(*local)) != 0)
        die("bind");
    return fd;
}

void udp_connect(int fd, const struct sockaddr_in *peer)
{
    if (connect(fd, (const struct sockaddr *)peer, sizeof(*peer)) != 0)
        die("connect");
}

void udp_join(int fd, struct in_addr group, const char *interface, const struct in_addr *source)
{
    if (source == NULL) {
        struct ip_mreqn request = {.imr_multiaddr = group, .imr_ifindex = index_of(interface)};
        set_option(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request), "IP_ADD_MEMBERSHIP");
        return;
    }
    struct group_source_req request = {.gsr_interface = (uint32_t)index_of(interface)};
    struct sockaddr_in *group_address = (struct sockaddr_in *)&request.gsr_group;
    struct sockaddr_in *source_address = (struct sockaddr_in *)&request.gsr_source;
    *group_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = group};
    *source_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = *source};
    set_option(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &request, sizeof(request), "MCAST_JOIN_SOURCE_GROUP");
}

void udp_multicast_send(int fd, const char *interface, int ttl, int loop)
{
    set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof(ttl), "IP_MULTICAST_TTL");
    if (loop >= 0)
        set_option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loop, sizeof(loop), "IP_MULTICAST_LOOP");
    if (interface != NULL) {
        struct ip_mreqn request = {.imr_ifindex = index_of(interface)};
        set_option(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof(request), "IP_MULTICAST_IF");
    }
}

void udp_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        die("fcntl");
}

void udp_receive_timeout(int fd, int milliseconds)
{
    struct timeval timeout = {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    set_option(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout), "SO_RCVTIMEO");
}
