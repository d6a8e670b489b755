// What every case needs: a device, a protection domain, queues, a region, frames.
#ifndef RIG_H
#define RIG_H

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__,   \
				#condition, errno);                                     \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

#define SLOTS 64
#define SLOT 2048

struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_qp_cap cap;
	uint8_t *memory; // SLOTS pieces of SLOT bytes
};

static const uint8_t HERE[6] = {2, 0, 0, 0, 0, 1}, THERE[6] = {2, 0, 0, 0, 0, 2};

static inline struct ibv_context *rig_context(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count >= 1);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

static inline struct ibv_qp *rig_qp(struct rig *r)
{
	struct ibv_qp_init_attr attr = {.send_cq = r->send_cq,
					.recv_cq = r->recv_cq,
					.cap = r->cap,
					.qp_type = IBV_QPT_RAW_PACKET};
	return ibv_create_qp(r->pd, &attr);
}

static inline int rig_move(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

static inline void rig_ready(struct ibv_qp *qp)
{
	CHECK(rig_move(qp, IBV_QPS_INIT) == 0);
	CHECK(rig_move(qp, IBV_QPS_RTR) == 0);
	CHECK(rig_move(qp, IBV_QPS_RTS) == 0);
}

// A queue pair in reset, with completion queues of the given size and channel.
static inline struct rig rig_cold(int cqe, int with_channel)
{
	struct rig r = {.cap = {.max_send_wr = 8,
				.max_recv_wr = 8,
				.max_send_sge = 2,
				.max_recv_sge = 2,
				.max_inline_data = 128}};
	r.context = rig_context();
	r.pd = ibv_alloc_pd(r.context);
	CHECK(r.pd);
	if (with_channel)
		CHECK((r.channel = ibv_create_comp_channel(r.context)));
	r.send_cq = ibv_create_cq(r.context, cqe, NULL, r.channel, 0);
	r.recv_cq = ibv_create_cq(r.context, cqe, &r, r.channel, 0);
	CHECK(r.send_cq && r.recv_cq);
	r.memory = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(r.memory != MAP_FAILED);
	r.mr = ibv_reg_mr(r.pd, r.memory, SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE);
	CHECK(r.mr);
	r.qp = rig_qp(&r);
	CHECK(r.qp);
	return r;
}

static inline struct rig rig_open(void)
{
	struct rig r = rig_cold(32, 0);
	rig_ready(r.qp);
	return r;
}

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4 ip;
	struct ibv_flow_spec_tcp_udp udp;
};

// Frames to THERE, 10.0.0.2 and a UDP port.
static inline struct rule rig_rule(uint16_t port)
{
	struct rule rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(rule),
			 .num_of_specs = 3,
			 .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
		.ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(rule.ip)},
		.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(rule.udp)},
	};
	memcpy(rule.eth.val.dst_mac, THERE, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	rule.eth.val.ether_type = htons(0x0800);
	rule.eth.mask.ether_type = 0xffff;
	rule.ip.val.dst_ip = inet_addr("10.0.0.2");
	rule.ip.mask.dst_ip = 0xffffffff;
	rule.udp.val.dst_port = htons(port);
	rule.udp.mask.dst_port = 0xffff;
	return rule;
}

static inline struct ibv_flow *rig_steer(struct ibv_qp *qp, uint16_t port)
{
	struct rule rule = rig_rule(port);
	return ibv_create_flow(qp, &rule.attr);
}

// A UDP frame with `length` bytes of data and no checksums; returns its size.
static inline size_t rig_frame(uint8_t *to, uint16_t port, size_t length)
{
	memcpy(to, THERE, 6);
	memcpy(to + 6, HERE, 6);
	const uint8_t rest[] = {8,    0,   0x45, 0,  (uint8_t)((28 + length) >> 8),
				(uint8_t)(28 + length), 0, 1, 0, 0, 64, 17, 0, 0,
				10,   0,   0,    1,  10, 0, 0, 2, 0x30, 0x39,
				(uint8_t)(port >> 8), (uint8_t)port,
				(uint8_t)((8 + length) >> 8), (uint8_t)(8 + length), 0, 0};
	memcpy(to + 12, rest, sizeof(rest));
	for (size_t i = 0; i < length; i++)
		to[42 + i] = (uint8_t)(i * 7 + port);
	return 42 + length;
}

static inline uint8_t *rig_slot(struct rig *r, int slot)
{
	return r->memory + slot * SLOT;
}

static inline int rig_post(struct rig *r, struct ibv_qp *qp, int slot, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)rig_slot(r, slot), SLOT, lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

static inline int rig_send_flags(struct rig *r, uint16_t port, size_t length, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)rig_slot(r, SLOTS - 1),
			      (uint32_t)rig_frame(rig_slot(r, SLOTS - 1), port, length),
			      r->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1000 + port,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags},
			   *bad;
	return ibv_post_send(r->qp, &wr, &bad);
}

static inline int rig_send(struct rig *r, uint16_t port, size_t length)
{
	return rig_send_flags(r, port, length, IBV_SEND_SIGNALED);
}

// The one completion that is there.
static inline struct ibv_wc rig_poll(struct ibv_cq *cq)
{
	struct ibv_wc wc[2];
	memset(wc, 0, sizeof(wc));
	int found = ibv_poll_cq(cq, 2, wc);
	if (found != 1)
		fprintf(stderr, "%d completions instead of one\n", found);
	CHECK(found == 1);
	return wc[0];
}

static inline int rig_count(struct ibv_cq *cq)
{
	struct ibv_wc wc[64];
	return ibv_poll_cq(cq, 64, wc);
}

#endif
