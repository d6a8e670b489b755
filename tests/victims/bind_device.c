/* SO_BINDTODEVICE and a bind to one address. */
#include "common.h"

int main(void)
{
	char name[IF_NAMESIZE] = "?";
	socklen_t length = sizeof name;
	begin(10);
	peer_start();
	int veth = udp_shared("0.0.0.0", PORT), lo = udp_shared("0.0.0.0", PORT);
	int exact = udp_bound(NEAR_ALIAS, PORT + 1);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), self = addr4("127.0.0.1", PORT);
	CALL(setsockopt(veth, SOL_SOCKET, SO_BINDTODEVICE, "veth0", 6));
	CALL(setsockopt(lo, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
	CALL(setsockopt(lo, SOL_SOCKET, SO_BINDTODEVICE, "nonesuch", 9));
	CALL(getsockopt(veth, SOL_SOCKET, SO_BINDTODEVICE, name, &length));
	say("  %s (%u bytes)", name, length);
	peer_send(NEAR, PORT, "to veth0");
	say_recv("veth", veth, 0);
	say_recv("lo", lo, MSG_DONTWAIT);
	CALL(sendto(exact, "to lo", 5, 0, SA(self)));
	say_recv("lo", lo, MSG_DONTWAIT);
	say_recv("veth", veth, MSG_DONTWAIT);
	CALL(sendto(veth, "out", 3, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(lo, "out", 3, 0, SA(to)));
	peer_recv(50);
	peer_send(NEAR, PORT + 1, "to the other address");
	say_recv("exact", exact, MSG_DONTWAIT);
	peer_send(NEAR_ALIAS, PORT + 1, "to the address");
	say_recv("exact", exact, 0);
	CALL(sendto(exact, "from the alias", 14, 0, SA(to)));
	peer_recv(1000);
	report();
	return done();
}
