/* Broadcast: permission, and every socket on the port gets a copy. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_open(4, "0.0.0.0", PORT);
	peer_start();
	int a = udp_shared("0.0.0.0", PORT), b = udp_shared("0.0.0.0", PORT);
	struct sockaddr_in all = addr4("10.78.0.255", PORT), limited = addr4("255.255.255.255", PORT);
	CALL(sendto(a, "no", 2, 0, SA(all)));
	CALL(enable(a, SOL_SOCKET, SO_BROADCAST));
	CALL(sendto(a, "subnet", 6, 0, SA(all)));
	peer_recv_slot(4, 1000);
	/* Our own copy comes by the kernel's loopback. */
	sleep_ms(10);
	say_recv("b", b, MSG_DONTWAIT);
	say_recv("a", a, MSG_DONTWAIT);
	CALL(setsockopt(a, SOL_SOCKET, SO_BINDTODEVICE, "veth0", 6));
	CALL(sendto(a, "limited", 7, 0, SA(limited)));
	peer_recv_slot(4, 1000);
	while (recv(a, (char[64]){0}, 64, MSG_DONTWAIT) > 0 || recv(b, (char[64]){0}, 64, MSG_DONTWAIT) > 0)
		;
	peer_send("10.78.0.255", PORT, "from far");
	sleep_ms(10);
	say_recv("a", a, 0);
	say_recv("b", b, MSG_DONTWAIT);
	say_recv("b", b, MSG_DONTWAIT);
	report();
	return done();
}
