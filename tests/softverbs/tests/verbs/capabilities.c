// What the device says it is, under the variables that change it.
#include "cases.h"

static void usual(void)
{
	struct ibv_context *context = rig_context();
	CHECK(context->device->node_type == IBV_NODE_CA);
	CHECK(context->device->transport_type == IBV_TRANSPORT_IB);
	struct ibv_device_attr_ex attr;
	CHECK(ibv_query_device_ex(context, NULL, &attr) == 0);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	CHECK(attr.raw_packet_caps == IBV_RAW_PACKET_CAP_IP_CSUM);
	CHECK(attr.tso_caps.max_tso == 0 && attr.rss_caps.supported_qpts == 0);
	CHECK(attr.hca_core_clock && attr.completion_timestamp_mask);
	CHECK(attr.orig_attr.max_qp == 1024 && attr.orig_attr.phys_port_cnt == 1);
	CHECK(strcmp(attr.orig_attr.fw_ver, "softverbs") == 0);
	struct ibv_port_attr port;
	CHECK(ibv_query_port(context, 1, &port) == 0);
	CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(ibv_query_port(context, 2, &port) == EINVAL);
	union ibv_gid gid;
	CHECK(ibv_query_gid(context, 1, 0, &gid) == 0 && gid.raw[0] == 0xfe);
	__be16 key;
	CHECK(ibv_query_pkey(context, 1, 0, &key) == 0 && key == 0xffff);
	CHECK(strcmp(ibv_wc_status_str(IBV_WC_LOC_PROT_ERR), "local protection error") == 0);
	CHECK(strcmp(ibv_event_type_str(IBV_EVENT_PORT_ERR), "port error") == 0);
	CHECK(strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), "active") == 0);
	CHECK(strcmp(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter") == 0);
}

// The function that old programs call writes no more than they have room for.
#undef ibv_query_port
static void old_port_query(void)
{
	struct ibv_context *context = rig_context();
	struct ibv_port_attr port;
	memset(&port, 0xa5, sizeof(port));
	CHECK(ibv_query_port(context, 1, (struct _compat_ibv_port_attr *)&port) == 0);
	CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(port.flags == 0xa5 && port.port_cap_flags2 == 0xa5a5);
}
#define ibv_query_port(context, port_num, port_attr) \
	___ibv_query_port(context, port_num, port_attr)

static void infiniband(void)
{
	struct ibv_port_attr port;
	CHECK(ibv_query_port(rig_context(), 1, &port) == 0);
	CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
}

static void iwarp(void)
{
	struct ibv_device *device = rig_context()->device;
	CHECK(device->node_type == IBV_NODE_RNIC);
	CHECK(device->transport_type == IBV_TRANSPORT_IWARP);
}

static struct rig without_queue_pair(void)
{
	struct rig r = {.context = rig_context(),
			.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
				.max_recv_sge = 1}};
	r.pd = ibv_alloc_pd(r.context);
	r.send_cq = r.recv_cq = ibv_create_cq(r.context, 1, NULL, NULL, 0);
	CHECK(r.pd && r.recv_cq);
	return r;
}

static void no_raw_packet(void)
{
	struct rig r = without_queue_pair();
	struct ibv_device_attr_ex attr;
	CHECK(ibv_query_device_ex(r.context, NULL, &attr) == 0);
	CHECK(attr.raw_packet_caps == 0 && attr.orig_attr.max_raw_ethy_qp == 0);
	CHECK(!rig_qp(&r) && errno == EOPNOTSUPP);
}

static void three_queue_pairs(void)
{
	struct rig r = without_queue_pair();
	struct ibv_qp *last = NULL;
	for (int i = 0; i < 3; i++)
		CHECK((last = rig_qp(&r)));
	CHECK(!rig_qp(&r) && errno == ENOMEM);
	CHECK(ibv_destroy_qp(last) == 0 && rig_qp(&r));
}

static void two_flows(void)
{
	struct rig r = rig_open();
	struct ibv_flow *flow = rig_steer(r.qp, 1);
	CHECK(flow && rig_steer(r.qp, 2));
	CHECK(!rig_steer(r.qp, 3) && errno == ENOMEM);
	CHECK(ibv_destroy_flow(flow) == 0 && rig_steer(r.qp, 3));
}

static void one_region(void)
{
	struct rig r = rig_open();
	CHECK(!ibv_reg_mr(r.pd, r.memory, 1, 0) && errno == ENOMEM);
}

static void short_inline(void)
{
	struct rig r = without_queue_pair();
	r.cap.max_inline_data = 61;
	CHECK(!rig_qp(&r) && errno == EINVAL);
	r.cap.max_inline_data = 60;
	CHECK(rig_qp(&r));
}

static void no_flow_steering(void)
{
	struct rig r = rig_open();
	struct ibv_device_attr attr;
	CHECK(ibv_query_device(r.context, &attr) == 0);
	CHECK(!(attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING));
	CHECK(!rig_steer(r.qp, 1) && errno == EOPNOTSUPP);
}

static void no_checksums(void)
{
	struct rig r = rig_open();
	struct ibv_device_attr_ex attr;
	CHECK(ibv_query_device_ex(r.context, NULL, &attr) == 0);
	CHECK(!(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM));
	CHECK(attr.raw_packet_caps == 0);
	CHECK(rig_send_flags(&r, 7, 30, IBV_SEND_IP_CSUM) == EINVAL);
}

static void no_timestamps(void)
{
	struct ibv_context *context = rig_context();
	struct ibv_device_attr_ex attr;
	CHECK(ibv_query_device_ex(context, NULL, &attr) == 0);
	CHECK(attr.hca_core_clock == 0 && attr.completion_timestamp_mask == 0);
	struct ibv_cq_init_attr_ex cq = {.cqe = 1};
	CHECK(ibv_create_cq_ex(context, &cq));
	cq.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	CHECK(!ibv_create_cq_ex(context, &cq) && errno == EOPNOTSUPP);
}

static void no_extended_queues(void)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 1};
	CHECK(!ibv_create_cq_ex(rig_context(), &cq) && errno == EOPNOTSUPP);
}

static void other_queue_pairs(void)
{
	struct rig r = without_queue_pair();
	struct ibv_qp_init_attr_ex attr = {.send_cq = r.send_cq,
					   .recv_cq = r.recv_cq,
					   .cap = r.cap,
					   .qp_type = IBV_QPT_RAW_PACKET,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_CREATE_FLAGS,
					   .pd = r.pd,
					   .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
	CHECK(ibv_create_qp_ex(r.context, &attr));
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	CHECK(!ibv_create_qp_ex(r.context, &attr) && errno == EOPNOTSUPP);
	attr.create_flags = 0;
	attr.qp_type = IBV_QPT_UD;
	CHECK(!ibv_create_qp_ex(r.context, &attr) && errno == EOPNOTSUPP);
}

// Prints where the device's directory is.
static void directory(void)
{
	struct ibv_context *context = rig_context();
	printf("%s\n%s\n", context->device->ibdev_path, ibv_get_device_name(context->device));
}

CASES(CASE(usual), CASE(old_port_query), CASE(infiniband), CASE(iwarp), CASE(no_raw_packet),
      CASE(three_queue_pairs), CASE(two_flows), CASE(one_region), CASE(short_inline),
      CASE(no_flow_steering), CASE(no_checksums), CASE(no_timestamps), CASE(no_extended_queues),
      CASE(other_queue_pairs), CASE(directory))
