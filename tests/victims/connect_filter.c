/* connect() filters what comes later; what is queued already stays. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_start();
	peer_open(1, FAR, PEER_PORT + 1);
	peer_open(2, "10.78.0.12", PEER_PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send_from(1, NEAR, PORT, "queued before");
	CALL(connect(fd, SA(to)));
	say_recv("connected", fd, MSG_DONTWAIT);
	peer_send_from(1, NEAR, PORT, "other port");
	peer_send_from(2, NEAR, PORT, "other address");
	say_recv("connected", fd, MSG_DONTWAIT);
	peer_send(NEAR_ALIAS, PORT, "to the alias");
	say_recv("connected", fd, MSG_DONTWAIT);
	peer_send(NEAR, PORT, "right");
	say_recv("connected", fd, 0);
	/* sendto elsewhere from a connected socket. */
	struct sockaddr_in elsewhere = addr4(FAR, PEER_PORT + 1);
	CALL(sendto(fd, "elsewhere", 9, 0, SA(elsewhere)));
	peer_recv_slot(1, 1000);
	/* A connected socket and a bound one on the same port: the better match gets it. */
	int second = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in a = addr4("0.0.0.0", PORT);
	CALL(bind(second, SA(a)));
	report();
	return done();
}
