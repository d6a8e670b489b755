// Flow rules: what a specification may say, and that only matching frames arrive.
#include "cases.h"

static int makes(struct rig *r, struct rule *rule)
{
	errno = 0;
	struct ibv_flow *flow = ibv_create_flow(r->qp, &rule->attr);
	if (!flow)
		return errno;
	CHECK(ibv_destroy_flow(flow) == 0);
	return 0;
}

// One change to a good rule is refused.
#define REFUSED(name, error, change)                                                    \
	static void name(void)                                                          \
	{                                                                               \
		struct rig r = rig_open();                                              \
		struct rule rule = rig_rule(7);                                         \
		CHECK(makes(&r, &rule) == 0);                                           \
		change;                                                                 \
		CHECK(makes(&r, &rule) == error);                                       \
	}

REFUSED(wrong_port, EINVAL, rule.attr.port = 2)
REFUSED(unknown_flags, EINVAL, rule.attr.flags = 1 << 5)
REFUSED(unknown_type, EINVAL, rule.attr.type = 9)
REFUSED(unknown_mask, EINVAL, rule.attr.comp_mask = 1)
REFUSED(low_priority, ENOMEM, rule.attr.priority = 16)
REFUSED(wrong_total, EINVAL, rule.attr.size--)
REFUSED(wrong_size, EINVAL, rule.udp.size += 4)
REFUSED(unknown_specification, EINVAL, rule.udp.type = 0x7777)
REFUSED(outside_mask, EINVAL, rule.ip.mask.dst_ip = htonl(0xffffff00))
REFUSED(outside_port_mask, EINVAL, rule.udp.mask.dst_port = 0)
REFUSED(other_ether_type, EINVAL, rule.eth.val.ether_type = htons(0x86dd))
REFUSED(default_with_specifications, EINVAL, rule.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT)
REFUSED(egress, EOPNOTSUPP, rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS)

// The same rule without its IPv4 specification.
static void ports_without_ipv4(void)
{
	struct rig r = rig_open();
	struct rule rule = rig_rule(7);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_tcp_udp udp;
	} less = {rule.attr, rule.eth, rule.udp};
	less.attr.num_of_specs = 2;
	less.attr.size = sizeof(less);
	CHECK(!ibv_create_flow(r.qp, &less.attr) && errno == EINVAL);
}

static void wrong_order(void)
{
	struct rig r = rig_open();
	struct rule rule = rig_rule(7);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_ipv4 ip;
		struct ibv_flow_spec_eth eth;
	} turned = {rule.attr, rule.ip, rule.eth};
	turned.attr.num_of_specs = 2;
	turned.attr.size = sizeof(turned);
	CHECK(!ibv_create_flow(r.qp, &turned.attr) && errno == EINVAL);
}

static void long_tag(void)
{
	struct rig r = rig_open();
	struct rule rule = rig_rule(7);
	struct {
		struct rule rule;
		struct ibv_flow_spec_action_tag tag;
	} tagged = {rule, {IBV_FLOW_SPEC_ACTION_TAG, sizeof(tagged.tag), 0xffffff}};
	tagged.rule.attr.num_of_specs = 4;
	tagged.rule.attr.size = sizeof(tagged);
	CHECK(makes(&r, &tagged.rule) == 0);
	tagged.tag.tag_id++;
	CHECK(makes(&r, &tagged.rule) == EINVAL);
}

static void matching(void)
{
	struct rig r = rig_open();
	struct ibv_flow *flow = rig_steer(r.qp, 7);
	for (int i = 0; i < 4; i++)
		CHECK(rig_post(&r, r.qp, i, r.mr->lkey) == 0);
	struct ibv_wc wc;
	CHECK(rig_send(&r, 8, 30) == 0 && ibv_poll_cq(r.recv_cq, 1, &wc) == 0);
	CHECK(rig_send(&r, 7, 30) == 0 && ibv_poll_cq(r.recv_cq, 1, &wc) == 1);
	CHECK(ibv_destroy_flow(flow) == 0);
	CHECK(rig_send(&r, 7, 30) == 0 && ibv_poll_cq(r.recv_cq, 1, &wc) == 0);
	struct ibv_flow_attr all = {
		.type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(all), .port = 1};
	CHECK(ibv_create_flow(r.qp, &all));
	CHECK(rig_send(&r, 9, 30) == 0 && ibv_poll_cq(r.recv_cq, 1, &wc) == 1);
}

// Two queue pairs with the same rule each get a copy.
static void copies(void)
{
	struct rig r = rig_open();
	struct ibv_qp *other = rig_qp(&r);
	rig_ready(other);
	CHECK(rig_steer(r.qp, 7) && rig_steer(other, 7));
	CHECK(rig_post(&r, r.qp, 0, r.mr->lkey) == 0 && rig_post(&r, other, 1, r.mr->lkey) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	struct ibv_wc wc[2];
	CHECK(ibv_poll_cq(r.recv_cq, 2, wc) == 2 && wc[0].qp_num != wc[1].qp_num);
}

CASES(CASE(wrong_port), CASE(unknown_flags), CASE(unknown_type), CASE(unknown_mask),
      CASE(low_priority), CASE(wrong_total), CASE(wrong_size), CASE(unknown_specification),
      CASE(outside_mask), CASE(outside_port_mask), CASE(other_ether_type),
      CASE(default_with_specifications), CASE(egress), CASE(ports_without_ipv4),
      CASE(wrong_order), CASE(long_tag), CASE(matching), CASE(copies))
