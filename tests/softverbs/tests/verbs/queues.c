// Posting and polling: what a card refuses at once, and what it reports in a completion.
#include "cases.h"
#include "alone.h"

static void ping(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 20; i++) {
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
		CHECK(rig_send(&r, 7, 30 + i) == 0);
		struct ibv_wc sent = rig_poll(r.send_cq);
		CHECK(sent.status == IBV_WC_SUCCESS && sent.opcode == IBV_WC_SEND);
		CHECK(sent.wr_id == 1007 && sent.qp_num == r.qp->qp_num);
		struct ibv_wc got = rig_poll(r.recv_cq);
		CHECK(got.status == IBV_WC_SUCCESS && got.opcode == IBV_WC_RECV);
		CHECK(got.wr_id == (uint64_t)i && got.qp_num == r.qp->qp_num);
		CHECK(got.byte_len == 42u + 30 + i);
		CHECK(memcmp(rig_slot(&r, i), rig_slot(&r, SLOTS - 1), got.byte_len) == 0);
	}
	CHECK(ibv_poll_cq(r.recv_cq, 1, &(struct ibv_wc){0}) == 0);
}

// A frame in two pieces, received into two pieces.
static void scatter_gather(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	struct ibv_sge into[2] = {{(uintptr_t)rig_slot(&r, 0), 20, r.mr->lkey},
				  {(uintptr_t)rig_slot(&r, 1), 500, r.mr->lkey}};
	struct ibv_recv_wr recv = {.sg_list = into, .num_sge = 2}, *bad_recv;
	CHECK(ibv_post_recv(r.qp, &recv, &bad_recv) == 0);
	uint8_t *frame = rig_slot(&r, 2);
	uint32_t size = rig_frame(frame, 7, 100);
	struct ibv_sge from[2] = {{(uintptr_t)frame, 50, r.mr->lkey},
				  {(uintptr_t)frame + 50, size - 50, r.mr->lkey}};
	struct ibv_send_wr send = {.sg_list = from, .num_sge = 2, .opcode = IBV_WR_SEND}, *bad;
	CHECK(ibv_post_send(r.qp, &send, &bad) == 0);
	CHECK(rig_poll(r.recv_cq).byte_len == size);
	CHECK(memcmp(rig_slot(&r, 0), frame, 20) == 0);
	CHECK(memcmp(rig_slot(&r, 1), frame + 20, size - 20) == 0);
}

static void states(void)
{
	struct rig r = rig_cold(32, 0);
	CHECK(r.qp->state == IBV_QPS_RESET);
	CHECK(rig_move(r.qp, IBV_QPS_RTR) == EINVAL);
	CHECK(rig_move(r.qp, IBV_QPS_INIT) == 0 && r.qp->state == IBV_QPS_INIT);
	CHECK(rig_move(r.qp, IBV_QPS_RTS) == EINVAL);
	CHECK(rig_move(r.qp, IBV_QPS_RTR) == 0);
	CHECK(rig_move(r.qp, IBV_QPS_RTS) == 0 && r.qp->state == IBV_QPS_RTS);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(ibv_query_qp(r.qp, &attr, IBV_QP_STATE, &init) == 0);
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.cap.max_inline_data == 128);
	CHECK(init.qp_type == IBV_QPT_RAW_PACKET && init.recv_cq == r.recv_cq);
}

static void send_in_init(void)
{
	struct rig r = rig_cold(32, 0);
	CHECK(rig_move(r.qp, IBV_QPS_INIT) == 0);
	CHECK(rig_send(&r, 7, 30) == EINVAL);
}

static void receive_in_reset(void)
{
	struct rig r = rig_cold(32, 0);
	CHECK(rig_post(&r, r.qp, 0, r.mr->lkey) == EINVAL);
	CHECK(rig_move(r.qp, IBV_QPS_INIT) == 0);
	CHECK(rig_post(&r, r.qp, 0, r.mr->lkey) == 0);
}

// The queue pair is in error: what was posted and what will be is flushed.
static void flushed(struct rig *r)
{
	CHECK(r->qp->state == IBV_QPS_ERR);
	struct ibv_wc wc = rig_poll(r->recv_cq);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 5);
	CHECK(rig_send_flags(r, 7, 30, 0) == 0);
	CHECK(rig_poll(r->send_cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(rig_post(r, r->qp, 6, r->mr->lkey) == 0);
	CHECK(rig_poll(r->recv_cq).wr_id == 6);
	CHECK(rig_move(r->qp, IBV_QPS_RTS) == EINVAL);
	CHECK(rig_move(r->qp, IBV_QPS_RESET) == 0);
	rig_ready(r->qp);
	CHECK(rig_send(r, 7, 30) == 0);
	CHECK(rig_poll(r->send_cq).status == IBV_WC_SUCCESS);
}

static int send_from(struct rig *r, uintptr_t address, uint32_t lkey)
{
	struct ibv_sge sge = {address, 60, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	CHECK(rig_post(r, r->qp, 5, r->mr->lkey) == 0);
	return ibv_post_send(r->qp, &wr, &bad);
}

static void send_wrong_key(void)
{
	struct rig r = rig_open();
	CHECK(send_from(&r, (uintptr_t)r.memory, r.mr->lkey + 1) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_LOC_PROT_ERR);
	flushed(&r);
}

static void send_out_of_range(void)
{
	struct rig r = rig_open();
	CHECK(send_from(&r, (uintptr_t)r.memory + SLOTS * SLOT - 59, r.mr->lkey) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_LOC_PROT_ERR);
	flushed(&r);
}

static void send_other_domain(void)
{
	struct rig r = rig_open();
	struct ibv_pd *other = ibv_alloc_pd(r.context);
	struct ibv_mr *mr = ibv_reg_mr(other, r.memory, SLOT, 0);
	CHECK(mr && send_from(&r, (uintptr_t)r.memory, mr->lkey) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_LOC_PROT_ERR);
	flushed(&r);
}

// A receive that cannot be written; the one posted behind it is flushed.
static void lost_receive(struct rig *r, enum ibv_wc_status status)
{
	CHECK(rig_steer(r->qp, 7));
	CHECK(rig_post(r, r->qp, 5, r->mr->lkey) == 0);
	CHECK(rig_send(r, 7, 30) == 0);
	CHECK(rig_poll(r->send_cq).status == IBV_WC_SUCCESS);
	struct ibv_wc wc[3];
	CHECK(ibv_poll_cq(r->recv_cq, 3, wc) == 2);
	CHECK(wc[0].wr_id == 1 && wc[0].status == status);
	CHECK(wc[1].wr_id == 5 && wc[1].status == IBV_WC_WR_FLUSH_ERR);
	CHECK(r->qp->state == IBV_QPS_ERR);
}

static void receive_wrong_key(void)
{
	struct rig r = rig_open();
	CHECK(rig_post(&r, r.qp, 1, r.mr->lkey ^ 0x300) == 0);
	lost_receive(&r, IBV_WC_LOC_PROT_ERR);
}

static void receive_read_only(void)
{
	struct rig r = rig_open();
	struct ibv_mr *mr = ibv_reg_mr(r.pd, r.memory, SLOTS * SLOT, 0);
	CHECK(mr && rig_post(&r, r.qp, 1, mr->lkey) == 0);
	lost_receive(&r, IBV_WC_LOC_PROT_ERR);
}

static void receive_too_short(void)
{
	struct rig r = rig_open();
	struct ibv_sge sge = {(uintptr_t)r.memory, 71, r.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
	memset(r.memory, 0x5a, 100);
	CHECK(ibv_post_recv(r.qp, &wr, &bad) == 0);
	lost_receive(&r, IBV_WC_LOC_LEN_ERR);
	CHECK(r.memory[71] == 0x5a);
}

// Slots come back when a later signalled completion is polled, not before.
static void send_queue_full(void)
{
	struct rig r = rig_open();
	for (int i = 0; i < 7; i++)
		CHECK(rig_send_flags(&r, 7, 30, 0) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_send(&r, 7, 30) == ENOMEM);
	CHECK(rig_send(&r, 7, 30) == ENOMEM);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_SUCCESS);
	for (int i = 0; i < 8; i++)
		CHECK(rig_send_flags(&r, 7, 30, 0) == 0);
	CHECK(rig_send(&r, 7, 30) == ENOMEM);
	CHECK(ibv_poll_cq(r.send_cq, 1, &(struct ibv_wc){0}) == 0);
	CHECK(rig_send(&r, 7, 30) == ENOMEM); // nothing signalled: stuck, as on a card
}

static void receive_queue_full(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 8; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	CHECK(rig_post(&r, r.qp, 8, r.mr->lkey) == ENOMEM);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_post(&r, r.qp, 8, r.mr->lkey) == ENOMEM); // arrived, but not polled
	CHECK(rig_poll(r.recv_cq).wr_id == 0);
	CHECK(rig_post(&r, r.qp, 8, r.mr->lkey) == 0);
	CHECK(rig_post(&r, r.qp, 9, r.mr->lkey) == ENOMEM);
}

static int send_pieces(struct rig *r, int pieces)
{
	struct ibv_sge sge[4];
	for (int i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)r->memory, 40, r->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = pieces, .opcode = IBV_WR_SEND}, *bad;
	int error = ibv_post_send(r->qp, &wr, &bad);
	CHECK(!error || bad == &wr);
	return error;
}

static void send_pieces_too_many(void)
{
	struct rig r = rig_open();
	CHECK(send_pieces(&r, 2) == 0);
	CHECK(send_pieces(&r, 3) == ENOMEM);
}

static void send_no_piece(void)
{
	struct rig r = rig_open();
	CHECK(send_pieces(&r, 0) == EINVAL);
}

static void receive_pieces_too_many(void)
{
	struct rig r = rig_open();
	struct ibv_sge sge[3];
	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)r.memory, 40, r.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 2}, *bad = NULL;
	CHECK(ibv_post_recv(r.qp, &wr, &bad) == 0);
	wr.num_sge = 3;
	CHECK(ibv_post_recv(r.qp, &wr, &bad) == EINVAL && bad == &wr);
}

// Inline data needs no region and may be used again at once.
static void inline_data(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	CHECK(rig_post(&r, r.qp, 0, r.mr->lkey) == 0);
	uint8_t own[200];
	struct ibv_sge sge = {(uintptr_t)own, rig_frame(own, 7, 128 - 42), 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE},
			   *bad;
	CHECK(sge.length == 128 && ibv_post_send(r.qp, &wr, &bad) == 0);
	CHECK(rig_poll(r.recv_cq).byte_len == 128);
	CHECK(memcmp(r.memory, own, 128) == 0);
}

static void inline_too_long(void)
{
	struct rig r = rig_open();
	CHECK(rig_send_flags(&r, 7, 128 - 42, IBV_SEND_INLINE) == 0);
	CHECK(rig_send_flags(&r, 7, 129 - 42, IBV_SEND_INLINE) == ENOMEM);
}

static void no_header(void)
{
	struct rig r = rig_open();
	struct ibv_sge sge = {(uintptr_t)r.memory, 17, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == EINVAL);
	sge.length = 18;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == 0);
}

static void above_mtu(void)
{
	struct rig r = rig_open();
	// lo: 65536 bytes of IP packet behind 14 of Ethernet.
	struct ibv_sge sge = {(uintptr_t)r.memory, 65536 + 14, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_SUCCESS);
	sge.length++;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == 0);
	CHECK(rig_poll(r.send_cq).status == IBV_WC_LOC_LEN_ERR);
	CHECK(r.qp->state == IBV_QPS_ERR);
}

static void wrong_opcode(void)
{
	struct rig r = rig_open();
	struct ibv_sge sge = {(uintptr_t)r.memory, 60, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == EINVAL);
}

// Of a list those before the bad one are posted, and `bad` says where it ended.
static void bad_in_list(void)
{
	struct rig r = rig_open();
	struct ibv_sge good = {(uintptr_t)r.memory, 60, r.mr->lkey};
	struct ibv_sge runt = {(uintptr_t)r.memory, 10, r.mr->lkey};
	struct ibv_send_wr wr[3], *bad = NULL;
	for (int i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = i,
					     .next = i < 2 ? &wr[i + 1] : NULL,
					     .sg_list = i == 1 ? &runt : &good,
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED};
	CHECK(ibv_post_send(r.qp, wr, &bad) == EINVAL && bad == &wr[1]);
	CHECK(rig_poll(r.send_cq).wr_id == 0);
}

// A completion queue of three gets a fourth.
static void overrun(void)
{
	struct rig r = rig_cold(3, 0);
	rig_ready(r.qp);
	CHECK(r.send_cq->cqe == 3);
	for (int i = 0; i < 3; i++)
		CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	struct ibv_async_event event;
	CHECK(ibv_get_async_event(r.context, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == r.send_cq);
	ibv_ack_async_event(&event);
	CHECK(ibv_get_async_event(r.context, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == r.qp);
	ibv_ack_async_event(&event);
	CHECK(r.qp->state == IBV_QPS_ERR);
	struct ibv_wc wc[8];
	CHECK(ibv_poll_cq(r.send_cq, 8, wc) == 3);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_poll_cq(r.send_cq, 8, wc) == 0); // no completion any more
}

// A frame without a receive posted is lost; the next one is not.
static void no_buffer(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_poll_cq(r.recv_cq, 1, &(struct ibv_wc){0}) == 0);
	CHECK(rig_post(&r, r.qp, 1, r.mr->lkey) == 0);
	CHECK(ibv_poll_cq(r.recv_cq, 1, &(struct ibv_wc){0}) == 0);
	CHECK(rig_send(&r, 7, 31) == 0);
	CHECK(rig_poll(r.recv_cq).byte_len == 42 + 31);
}

// A reset takes the completions with it, and what came before the queue pair was ready.
static void reset(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	CHECK(rig_post(&r, r.qp, 1, r.mr->lkey) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_move(r.qp, IBV_QPS_RESET) == 0);
	CHECK(ibv_poll_cq(r.send_cq, 1, &(struct ibv_wc){0}) == 0);
	rig_ready(r.qp);
	CHECK(rig_post(&r, r.qp, 2, r.mr->lkey) == 0);
	CHECK(ibv_poll_cq(r.recv_cq, 1, &(struct ibv_wc){0}) == 0);
	CHECK(rig_send(&r, 7, 33) == 0);
	struct ibv_wc wc = rig_poll(r.recv_cq);
	CHECK(wc.wr_id == 2 && wc.byte_len == 42 + 33);
}

// Completions of a queue pair go with it.
static void destroyed_with_completions(void)
{
	struct rig r = rig_open();
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_poll_cq(r.send_cq, 1, &(struct ibv_wc){0}) == 0);
	CHECK(ibv_destroy_cq(r.send_cq) == 0 && ibv_destroy_cq(r.recv_cq) == 0);
}

static void checksums(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 3; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	CHECK(rig_send_flags(&r, 7, 31, IBV_SEND_IP_CSUM) == 0);
	CHECK(rig_poll(r.recv_cq).wc_flags & IBV_WC_IP_CSUM_OK);
	uint8_t *got = rig_slot(&r, 0), *sent = rig_slot(&r, SLOTS - 1);
	CHECK((got[24] || got[25]) && (got[40] || got[41]));
	CHECK(!sent[24] && !sent[25] && !sent[40] && !sent[41]); // not in the caller's memory
	CHECK(rig_send_flags(&r, 7, 31, 0) == 0); // no IP checksum: wrong
	CHECK(!(rig_poll(r.recv_cq).wc_flags & IBV_WC_IP_CSUM_OK));
	memcpy(sent, got, 42 + 31);
	sent[50] ^= 1;
	struct ibv_sge sge = {(uintptr_t)sent, 42 + 31, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == 0);
	CHECK(!(rig_poll(r.recv_cq).wc_flags & IBV_WC_IP_CSUM_OK));
}

// The memory of a send may be written to again after a completion that covers it.
static void memory_used_again(void)
{
	struct rig r = rig_open();
	CHECK(rig_send_flags(&r, 7, 30, 0) == 0);
	CHECK(rig_send_flags(&r, 7, 30, IBV_SEND_SIGNALED) == 0); // the same bytes
	rig_poll(r.send_cq);
	CHECK(rig_send_flags(&r, 8, 30, IBV_SEND_INLINE) == 0);
	CHECK(rig_send_flags(&r, 9, 30, IBV_SEND_SIGNALED) == 0);
	rig_poll(r.send_cq);
}

static void memory_used_too_early(void)
{
	struct rig r = rig_open();
	CHECK(rig_send_flags(&r, 7, 30, 0) == 0);
	rig_slot(&r, SLOTS - 1)[50]++;
	struct ibv_sge sge = {(uintptr_t)r.memory, 60, r.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	CHECK(ibv_post_send(r.qp, &wr, &bad) == 0);
	rig_poll(r.send_cq);
}

static void region_gone_too_early(void)
{
	struct rig r = rig_open();
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(ibv_dereg_mr(r.mr) == 0);
	rig_poll(r.send_cq);
}

// Nothing on the way asks the kernel for anything.
static void no_system_call(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	for (int i = 0; i < 2000; i++) {
		if (i == 1000)
			forbid_system_calls();
		CHECK(rig_post(&r, r.qp, 1, r.mr->lkey) == 0);
		CHECK(rig_send_flags(&r, 7, 30, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM) == 0);
		rig_poll(r.send_cq);
		rig_poll(r.recv_cq);
	}
	syscall(SYS_exit_group, 0);
}

CASES(CASE(memory_used_again), CASE(memory_used_too_early), CASE(region_gone_too_early),
      CASE(no_system_call), CASE(ping), CASE(scatter_gather), CASE(states), CASE(send_in_init),
      CASE(receive_in_reset), CASE(send_wrong_key), CASE(send_out_of_range),
      CASE(send_other_domain), CASE(receive_wrong_key), CASE(receive_read_only),
      CASE(receive_too_short), CASE(send_queue_full), CASE(receive_queue_full),
      CASE(send_pieces_too_many), CASE(send_no_piece), CASE(receive_pieces_too_many),
      CASE(inline_data), CASE(inline_too_long), CASE(no_header), CASE(above_mtu),
      CASE(wrong_opcode), CASE(bad_in_list), CASE(overrun), CASE(no_buffer), CASE(reset),
      CASE(destroyed_with_completions), CASE(checksums))
