// Completion events, extended polls, and the clock.
#include "cases.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

static int readable(int fd, int milliseconds)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, milliseconds) == 1;
}

static void no_event(struct rig *r)
{
	CHECK(!readable(r->channel->fd, 50));
}

static struct ibv_cq *event(struct rig *r)
{
	struct ibv_cq *cq = NULL;
	void *user = NULL;
	CHECK(readable(r->channel->fd, 5000));
	CHECK(ibv_get_cq_event(r->channel, &cq, &user) == 0 && user == cq->cq_context);
	return cq;
}

static struct ibv_flow *flow; // of the queue pair that `asleep` makes

static struct rig asleep(void)
{
	struct rig r = rig_cold(32, 1);
	rig_ready(r.qp);
	CHECK((flow = rig_steer(r.qp, 7)));
	for (int i = 0; i < 4; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	CHECK(fcntl(r.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	return r;
}

// A frame raises one event for one request, and none without.
static void frame_event(void)
{
	struct rig r = asleep();
	struct ibv_cq *cq;
	void *user;
	CHECK(ibv_get_cq_event(r.channel, &cq, &user) == -1 && errno == EAGAIN);
	CHECK(rig_send(&r, 7, 30) == 0);
	no_event(&r);
	rig_poll(r.recv_cq);
	CHECK(ibv_req_notify_cq(r.recv_cq, 0) == 0);
	no_event(&r);
	CHECK(rig_send(&r, 7, 30) == 0 && rig_send(&r, 7, 30) == 0);
	CHECK(event(&r) == r.recv_cq);
	no_event(&r);
	ibv_ack_cq_events(r.recv_cq, 1);
	CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_destroy_cq(r.recv_cq) == 0);
}

// What was there before the request raises nothing: the caller has to look again.
static void nothing_for_the_past(void)
{
	struct rig r = asleep();
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_req_notify_cq(r.recv_cq, 0) == 0);
	CHECK(ibv_req_notify_cq(r.send_cq, 0) == 0);
	no_event(&r);
	rig_poll(r.send_cq);
}

static void send_event(void)
{
	struct rig r = asleep();
	CHECK(ibv_req_notify_cq(r.send_cq, 0) == 0);
	CHECK(rig_send_flags(&r, 9, 30, 0) == 0);
	no_event(&r);
	CHECK(rig_send(&r, 9, 30) == 0);
	CHECK(event(&r) == r.send_cq);
	ibv_ack_cq_events(r.send_cq, 1);
}

// Only an error is solicited.
static void solicited_event(void)
{
	struct rig r = asleep();
	CHECK(ibv_req_notify_cq(r.recv_cq, 1) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	no_event(&r);
	CHECK(rig_move(r.qp, IBV_QPS_ERR) == 0);
	CHECK(event(&r) == r.recv_cq);
	ibv_ack_cq_events(r.recv_cq, 1);
}

static void *sleeper(void *channel)
{
	struct ibv_cq *cq;
	void *user;
	CHECK(ibv_get_cq_event(channel, &cq, &user) == 0);
	ibv_ack_cq_events(cq, 1);
	return cq;
}

// A thread that sleeps in ibv_get_cq_event wakes up.
static void blocking_event(void)
{
	struct rig r = asleep();
	CHECK(fcntl(r.channel->fd, F_SETFL, 0) == 0);
	CHECK(ibv_req_notify_cq(r.recv_cq, 0) == 0);
	pthread_t thread;
	void *cq;
	CHECK(pthread_create(&thread, NULL, sleeper, r.channel) == 0);
	nanosleep(&(struct timespec){0, 20000000}, NULL);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(pthread_join(thread, &cq) == 0 && cq == r.recv_cq);
}

static void no_channel(void)
{
	struct rig r = rig_open();
	CHECK(ibv_req_notify_cq(r.recv_cq, 0) == EINVAL);
}

static void unacknowledged(void)
{
	struct rig r = asleep();
	CHECK(ibv_req_notify_cq(r.send_cq, 0) == 0);
	CHECK(rig_send(&r, 9, 30) == 0 && event(&r) == r.send_cq);
	CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_destroy_cq(r.send_cq) == EBUSY);
	ibv_ack_cq_events(r.send_cq, 1);
	CHECK(ibv_destroy_cq(r.send_cq) == 0);
}

static void acknowledged_twice(void)
{
	struct rig r = asleep();
	CHECK(ibv_req_notify_cq(r.send_cq, 0) == 0);
	CHECK(rig_send(&r, 9, 30) == 0 && event(&r) == r.send_cq);
	ibv_ack_cq_events(r.send_cq, 1);
	ibv_ack_cq_events(r.send_cq, 1);
}

// Replaces the receive side by an extended queue with the given fields.
static struct ibv_cq_ex *extended(struct rig *r, uint64_t fields)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = fields};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(r->context, &attr);
	CHECK(cq && ibv_destroy_qp(r->qp) == 0);
	r->recv_cq = ibv_cq_ex_to_cq(cq);
	r->qp = rig_qp(r);
	rig_ready(r->qp);
	CHECK(rig_steer(r->qp, 7));
	for (int i = 0; i < 4; i++)
		CHECK(rig_post(r, r->qp, i, r->mr->lkey) == 0);
	return cq;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void extended_poll(void)
{
	struct rig r = rig_open();
	struct ibv_cq_ex *cq =
		extended(&r, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	struct ibv_poll_cq_attr attr = {0};
	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	uint64_t before = now();
	CHECK(rig_send(&r, 7, 30) == 0 && rig_send(&r, 7, 31) == 0);
	uint64_t after = now();
	CHECK(ibv_start_poll(cq, &attr) == 0);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == i);
		CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV);
		CHECK(ibv_wc_read_byte_len(cq) == 42 + 30 + i);
		CHECK(ibv_wc_read_qp_num(cq) == r.qp->qp_num);
		uint64_t wall = ibv_wc_read_completion_wallclock_ns(cq);
		CHECK(before <= wall && wall <= after);
		// The raw clock counts at the rate that the device says.
		struct ibv_device_attr_ex device;
		CHECK(ibv_query_device_ex(r.context, NULL, &device) == 0);
		uint64_t ticks = ibv_wc_read_completion_ts(cq);
		__uint128_t ns = (__uint128_t)ticks * 1000000 / device.hca_core_clock;
		CHECK(device.completion_timestamp_mask >= ticks);
		CHECK((uint64_t)ns <= wall && wall - (uint64_t)ns < 100);
		CHECK(ibv_next_poll(cq) == (i == 0 ? 0 : ENOENT));
	}
	ibv_end_poll(cq);
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	CHECK(ibv_query_rt_values_ex(r.context, &values) == 0 && values.raw_clock.tv_nsec > 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_poll(r.recv_cq).wr_id == 2); // the ordinary poll works too
}

static void unasked_field(void)
{
	struct rig r = rig_open();
	struct ibv_cq_ex *cq = extended(&r, IBV_WC_EX_WITH_BYTE_LEN);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}) == 0);
	CHECK(ibv_wc_read_completion_ts(cq) == UINT64_MAX);
	ibv_end_poll(cq);
}

static void next_without_start(void)
{
	struct rig r = rig_open();
	struct ibv_cq_ex *cq = extended(&r, 0);
	CHECK(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}) == ENOENT);
	CHECK(ibv_next_poll(cq) == EINVAL);
}

static void flow_tag(void)
{
	struct rig r = rig_open();
	struct ibv_cq_ex *cq = extended(&r, IBV_WC_EX_WITH_FLOW_TAG);
	struct {
		struct rule rule;
		struct ibv_flow_spec_action_tag tag;
	} rule = {rig_rule(8), {IBV_FLOW_SPEC_ACTION_TAG, sizeof(rule.tag), 0x1234}};
	rule.rule.attr.num_of_specs = 4;
	rule.rule.attr.size = sizeof(rule);
	CHECK(ibv_create_flow(r.qp, &rule.rule.attr));
	CHECK(rig_send(&r, 8, 30) == 0);
	CHECK(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}) == 0);
	CHECK(ibv_wc_read_flow_tag(cq) == 0x1234);
	ibv_end_poll(cq);
}

static void *sender(void *arg)
{
	struct rig *r = arg;
	for (int sent = 0; sent < 20000;) {
		struct ibv_wc wc[8];
		for (int i = 0; i < 8; i++, sent++)
			CHECK(rig_send(r, 7, 30) == 0);
		CHECK(ibv_poll_cq(r->send_cq, 8, wc) == 8);
	}
	return NULL;
}

// One thread sends, one receives, on the same queue pair.
static void two_threads(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 8; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, sender, &r) == 0);
	int got = 0;
	for (uint64_t start = now(); now() - start < 500000000;) {
		struct ibv_wc wc[8];
		int found = ibv_poll_cq(r.recv_cq, 8, wc);
		CHECK(found >= 0);
		for (int i = 0; i < found; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len == 72);
			CHECK(rig_post(&r, r.qp, (int)wc[i].wr_id, r.mr->lkey) == 0);
		}
		got += found;
	}
	CHECK(pthread_join(thread, NULL) == 0 && got > 0);
}

CASES(CASE(frame_event), CASE(nothing_for_the_past), CASE(send_event), CASE(solicited_event),
      CASE(blocking_event), CASE(no_channel), CASE(unacknowledged), CASE(acknowledged_twice),
      CASE(extended_poll), CASE(unasked_field), CASE(next_without_start), CASE(flow_tag),
      CASE(two_threads))
