// One host of two that talk UDP through raw-packet queue pairs.
//   host ask COUNT WAIT      sends numbered datagrams from 10.77.0.1:5000, checks the answers
//   host answer COUNT WAIT   at 10.77.0.2:7, sends back what it gets
//   host watch COUNT WAIT    prints the names of COUNT asynchronous events
// WAIT is `spin`, `sleep` (completion events) or `alone` (spins, and makes no
// system call after the first datagrams). The other one may be a kernel socket.
#include "alone.h"
#include <poll.h>
#include <time.h>

// When system calls end: a wire maps a peer's memory when it first meets it.
#define WARM 10

static int alone;

static uint16_t big(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Waits for one completion of a receive; gives up after ten seconds.
static struct ibv_wc wait_for_frame(struct rig *r, int sleep)
{
	struct ibv_wc wc;
	double end = now() + 10;
	while (now() < end) {
		int found = ibv_poll_cq(r->recv_cq, 1, &wc);
		CHECK(found >= 0);
		if (found)
			return wc;
		if (!sleep)
			continue;
		CHECK(ibv_req_notify_cq(r->recv_cq, 0) == 0);
		found = ibv_poll_cq(r->recv_cq, 1, &wc);
		if (found)
			return wc;
		struct pollfd p = {r->channel->fd, POLLIN, 0};
		CHECK(poll(&p, 1, 10000) == 1);
		struct ibv_cq *cq;
		void *user;
		CHECK(ibv_get_cq_event(r->channel, &cq, &user) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	fprintf(stderr, "nothing came\n");
	exit(1);
}

static void send_frame(struct rig *r, uint8_t *frame, uint32_t size)
{
	struct ibv_sge sge = {(uintptr_t)frame, size, r->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM},
			   *bad;
	CHECK(ibv_post_send(r->qp, &wr, &bad) == 0);
	CHECK(rig_poll(r->send_cq).status == IBV_WC_SUCCESS);
}

static void build(uint8_t *f, uint32_t number, unsigned length)
{
	memset(f, 0, 42);
	memcpy(f, THERE, 6);
	memcpy(f + 6, HERE, 6);
	put(f + 12, 0x0800);
	f[14] = 0x45;
	put(f + 16, 28 + length);
	f[22] = 64;
	f[23] = 17;
	memcpy(f + 26, (uint8_t[]){10, 77, 0, 1, 10, 77, 0, 2}, 8);
	put(f + 34, 5000);
	put(f + 36, 7);
	put(f + 38, 8 + length);
	memcpy(f + 42, &number, 4);
	for (unsigned i = 4; i < length; i++)
		f[42 + i] = (uint8_t)(number + i);
}

static void ask(struct rig *r, uint32_t count, int sleep)
{
	uint8_t *f = rig_slot(r, SLOTS - 1);
	for (uint32_t n = 0; n < count; n++) {
		if (alone && n == WARM)
			forbid_system_calls();
		unsigned length = 4 + n % 1400;
		build(f, n, length);
		send_frame(r, f, 42 + length);
		struct ibv_wc wc = wait_for_frame(r, sleep);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_IP_CSUM_OK);
		uint8_t *got = rig_slot(r, (int)wc.wr_id);
		CHECK(wc.byte_len >= 42 + length && big(got + 38) == 8 + length);
		CHECK(memcmp(got + 42, f + 42, length) == 0);
		CHECK(rig_post(r, r->qp, (int)wc.wr_id, r->mr->lkey) == 0);
	}
}

static void answer(struct rig *r, uint32_t count, int sleep)
{
	for (uint32_t n = 0; n < count; n++) {
		if (alone && n == WARM)
			forbid_system_calls();
		struct ibv_wc wc = wait_for_frame(r, sleep);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_IP_CSUM_OK);
		uint8_t *f = rig_slot(r, (int)wc.wr_id), swap[6];
		memcpy(swap, f, 6), memcpy(f, f + 6, 6), memcpy(f + 6, swap, 6);
		memcpy(swap, f + 26, 4), memcpy(f + 26, f + 30, 4), memcpy(f + 30, swap, 4);
		memcpy(swap, f + 34, 2), memcpy(f + 34, f + 36, 2), memcpy(f + 36, swap, 2);
		send_frame(r, f, 14 + big(f + 16));
		CHECK(rig_post(r, r->qp, (int)wc.wr_id, r->mr->lkey) == 0);
	}
}

static void watch(struct rig *r, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		struct pollfd p = {r->context->async_fd, POLLIN, 0};
		CHECK(poll(&p, 1, 10000) == 1);
		struct ibv_async_event event;
		CHECK(ibv_get_async_event(r->context, &event) == 0);
		struct ibv_port_attr port;
		CHECK(ibv_query_port(r->context, 1, &port) == 0);
		printf("%s, now %s\n", ibv_event_type_str(event.event_type),
		       ibv_port_state_str(port.state));
		fflush(stdout);
		ibv_ack_async_event(&event);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	int asks = strcmp(argv[1], "ask") == 0;
	int sleep = strcmp(argv[3], "sleep") == 0;
	alone = strcmp(argv[3], "alone") == 0;
	struct rig r = rig_cold(64, 1);
	rig_ready(r.qp);
	for (int i = 0; i < 8; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	struct rule rule = rig_rule(asks ? 5000 : 7);
	memcpy(rule.eth.val.dst_mac, asks ? HERE : THERE, 6);
	rule.ip.val.dst_ip = inet_addr(asks ? "10.77.0.1" : "10.77.0.2");
	struct ibv_flow *flow = ibv_create_flow(r.qp, &rule.attr);
	CHECK(flow);
	puts("ready");
	fflush(stdout);
	if (strcmp(argv[1], "watch") == 0)
		watch(&r, (uint32_t)atoi(argv[2]));
	else
		(asks ? ask : answer)(&r, (uint32_t)atoi(argv[2]), sleep);
	if (alone)
		syscall(SYS_exit_group, 0);
	CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_destroy_cq(r.send_cq) == 0 && ibv_destroy_cq(r.recv_cq) == 0);
	CHECK(ibv_destroy_comp_channel(r.channel) == 0);
	CHECK(ibv_dereg_mr(r.mr) == 0 && ibv_dealloc_pd(r.pd) == 0);
	CHECK(ibv_close_device(r.context) == 0);
	return 0;
}
