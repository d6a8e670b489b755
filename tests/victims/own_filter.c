/* The program's own socket filter decides what it sees. */
#include "common.h"
#include <linux/filter.h>

int main(void)
{
	/* Only datagrams whose first byte of payload is 'y'. */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'y', 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 65535),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {4, code};
	int none = 0;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	CALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	peer_send(NEAR, PORT, "no");
	peer_send(NEAR, PORT, "yes");
	say_recv("fd", fd, 0);
	say_recv("fd", fd, MSG_DONTWAIT);
	report();
	CALL(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none));
	CALL(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none));
	peer_send(NEAR, PORT, "no longer filtered");
	say_recv("fd", fd, 0);
	return done();
}
