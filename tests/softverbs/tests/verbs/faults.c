// Faults on demand, each with the SOFTVERBS_FAULTS that faults.rs gives it.
#include "cases.h"
#include <poll.h>
#include <time.h>

// A queue pair that receives what it sends to port 7, with eight receives posted.
static struct rig listening(int with_channel)
{
	struct rig r = rig_cold(32, with_channel);
	rig_ready(r.qp);
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 8; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	return r;
}

// Sends frames whose lengths tell them apart: 100, 101 and so on.
static void send_many(struct rig *r, int count)
{
	for (int i = 0; i < count; i++)
		CHECK(rig_send_flags(r, 7, 58 + i, IBV_SEND_IP_CSUM) == 0);
}

static void expect(struct rig *r, const uint32_t *lengths, int count)
{
	struct ibv_wc wc[16];
	int found = ibv_poll_cq(r->recv_cq, 16, wc);
	if (found != count)
		fprintf(stderr, "%d frames instead of %d\n", found, count);
	CHECK(found == count);
	for (int i = 0; i < count; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len == lengths[i]);
}

static int readable(int fd, int milliseconds)
{
	struct pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, milliseconds) == 1;
}

static enum ibv_event_type event(struct rig *r, struct ibv_async_event *into)
{
	CHECK(readable(r->context->async_fd, 5000));
	CHECK(ibv_get_async_event(r->context, into) == 0);
	ibv_ack_async_event(into);
	return into->event_type;
}

static enum ibv_port_state state(struct rig *r)
{
	struct ibv_port_attr port;
	CHECK(ibv_query_port(r->context, 1, &port) == 0);
	return port.state;
}

static void dropped(void)
{
	struct rig r = listening(0);
	send_many(&r, 6);
	expect(&r, (uint32_t[]){100, 101, 103, 104}, 4);
}

static void dropped_on_sending(void)
{
	dropped();
}

static void corrupted(void)
{
	struct rig r = listening(0);
	send_many(&r, 4);
	struct ibv_wc wc[8];
	CHECK(ibv_poll_cq(r.recv_cq, 8, wc) == 4);
	uint8_t sent[SLOT];
	for (int i = 0; i < 4; i++) {
		CHECK(!!(wc[i].wc_flags & IBV_WC_IP_CSUM_OK) == (i % 2 == 0));
		rig_frame(sent, 7, 58 + i);
		int bits = 0;
		for (int at = 42; at < 100 + i; at++)
			bits += __builtin_popcount(sent[at] ^ rig_slot(&r, i)[at]);
		CHECK(bits == i % 2);
	}
}

static void delayed(void)
{
	struct rig r = listening(1);
	send_many(&r, 3);
	expect(&r, (uint32_t[]){100, 102}, 2);
	// Nothing more is sent: the frame itself has to wake who sleeps.
	CHECK(ibv_req_notify_cq(r.recv_cq, 0) == 0);
	CHECK(rig_count(r.recv_cq) == 0);
	CHECK(readable(r.channel->fd, 5000));
	expect(&r, (uint32_t[]){101}, 1);
}

static void reordered(void)
{
	struct rig r = listening(0);
	send_many(&r, 5);
	expect(&r, (uint32_t[]){100, 102, 101, 104, 103}, 5);
}

static void call_fails(void)
{
	struct ibv_context *context = rig_context();
	struct ibv_pd *first = ibv_alloc_pd(context);
	CHECK(first);
	CHECK(!ibv_alloc_pd(context) && errno == ENOMEM);
	CHECK(ibv_alloc_pd(context));
	CHECK(ibv_dealloc_pd(first) == EBUSY && ibv_dealloc_pd(first) == EBUSY);
}

static void data_call_fails(void)
{
	struct rig r = listening(0);
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(rig_send(&r, 7, 58) == ENOMEM);
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(rig_count(r.recv_cq) == 2);
}

static void send_fails(void)
{
	struct rig r = listening(0);
	CHECK(rig_send(&r, 7, 58) == 0 && rig_poll(r.send_cq).status == IBV_WC_SUCCESS);
	CHECK(rig_send_flags(&r, 7, 59, 0) == 0);
	struct ibv_wc wc = rig_poll(r.send_cq);
	CHECK(wc.status == IBV_WC_LOC_QP_OP_ERR && wc.wr_id == 1007);
	CHECK(rig_send(&r, 7, 60) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_WR_FLUSH_ERR);
}

static void receive_fails(void)
{
	struct rig r = listening(0);
	send_many(&r, 2);
	struct ibv_wc wc[16];
	CHECK(ibv_poll_cq(r.recv_cq, 16, wc) == 8);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[0].byte_len == 100);
	CHECK(wc[1].status == IBV_WC_LOC_PROT_ERR);
	for (int i = 2; i < 8; i++)
		CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR);
}

static void port_goes_down(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(state(&r) == IBV_PORT_ACTIVE);
	send_many(&r, 3); // down after two, up after four
	CHECK(event(&r, &what) == IBV_EVENT_PORT_ERR && what.element.port_num == 1);
	CHECK(state(&r) == IBV_PORT_DOWN);
	CHECK(rig_send(&r, 7, 70) == 0);
	CHECK(event(&r, &what) == IBV_EVENT_PORT_ACTIVE && state(&r) == IBV_PORT_ACTIVE);
	CHECK(rig_send(&r, 7, 71) == 0);
	// What was on the way when the carrier went is there: it had been received.
	expect(&r, (uint32_t[]){100, 101, 113}, 3);
}

static void device_goes(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(event(&r, &what) == IBV_EVENT_DEVICE_FATAL);
	CHECK(!ibv_alloc_pd(r.context) && errno == EIO);
	// What was complete is polled; nothing else completes or arrives any more.
	rig_count(r.send_cq), rig_count(r.recv_cq);
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(rig_count(r.send_cq) == 0 && rig_count(r.recv_cq) == 0);
	CHECK(ibv_close_device(r.context) == 0);
}

static void queue_pair_breaks(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(event(&r, &what) == IBV_EVENT_QP_FATAL && what.element.qp == r.qp);
	CHECK(rig_count(r.recv_cq) == 8);
	CHECK(rig_send(&r, 7, 58) == 0);
	struct ibv_wc wc[4];
	CHECK(ibv_poll_cq(r.send_cq, 4, wc) == 2 && wc[1].status == IBV_WC_WR_FLUSH_ERR);
}

static void completion_queue_breaks(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(event(&r, &what) == IBV_EVENT_CQ_ERR);
}

static void any_event(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(rig_send(&r, 7, 58) == 0);
	CHECK(event(&r, &what) == IBV_EVENT_GID_CHANGE);
	CHECK(rig_count(r.recv_cq) == 1);
}

static void ask(const char *line)
{
	FILE *file = fopen(getenv("SOFTVERBS_CONTROL"), "a");
	CHECK(file && fputs(line, file) >= 0 && fclose(file) == 0);
}

static void at_run_time(void)
{
	struct rig r = listening(0);
	struct ibv_async_event what;
	CHECK(rig_send(&r, 7, 58) == 0 && rig_count(r.recv_cq) == 1);
	ask("event=port_down\n");
	CHECK(event(&r, &what) == IBV_EVENT_PORT_ERR && state(&r) == IBV_PORT_DOWN);
	ask("elsewhere/event=port_up event=lid_change\n"); // one for another, one unheard of
	ask("drop=1, event=");
	CHECK(!readable(r.context->async_fd, 50));
	ask("port_up\n");
	CHECK(event(&r, &what) == IBV_EVENT_PORT_ACTIVE && state(&r) == IBV_PORT_ACTIVE);
	CHECK(rig_send(&r, 7, 58) == 0 && rig_count(r.recv_cq) == 0);
	ask("drop=0 fail=query_port:1:EIO event=port_up\n");
	CHECK(event(&r, &what) == IBV_EVENT_PORT_ACTIVE);
	struct ibv_port_attr port;
	CHECK(ibv_query_port(r.context, 1, &port) == EIO);
	CHECK(ibv_query_port(r.context, 1, &port) == 0);
	CHECK(rig_send(&r, 7, 58) == 0 && rig_count(r.recv_cq) == 1);
}

CASES(CASE(dropped), CASE(dropped_on_sending), CASE(corrupted), CASE(delayed), CASE(reordered),
      CASE(call_fails), CASE(data_call_fails), CASE(send_fails), CASE(receive_fails),
      CASE(port_goes_down), CASE(device_goes), CASE(queue_pair_breaks),
      CASE(completion_queue_breaks), CASE(any_event), CASE(at_run_time))
