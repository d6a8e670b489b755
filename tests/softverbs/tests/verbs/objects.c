// The life of objects: registration, order of destruction, use after it, fork, privileges.
#include "cases.h"
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Drops one capability from the effective set.
static void drop(int capability)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	CHECK(syscall(SYS_capget, &header, data) == 0);
	data[capability / 32].effective &= ~(1u << (capability % 32));
	CHECK(syscall(SYS_capset, &header, data) == 0);
}

static void no_net_raw(void)
{
	struct rig r = rig_open();
	drop(CAP_NET_RAW);
	CHECK(!rig_qp(&r) && errno == EPERM);
	errno = 0;
	CHECK(!rig_steer(r.qp, 7) && errno == EPERM);
}

static void locked_memory(void)
{
	struct rig r = rig_open();
	size_t pages = SLOTS * SLOT / 4096;
	struct rlimit limit = {(pages + 2) * 4096, (pages + 2) * 4096};
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	CHECK(ibv_dereg_mr(ibv_reg_mr(r.pd, r.memory, 3 * 4096, 0)) == 0);
	drop(CAP_IPC_LOCK);
	CHECK(!ibv_reg_mr(r.pd, r.memory, 3 * 4096, 0) && errno == ENOMEM);
	struct ibv_mr *mr = ibv_reg_mr(r.pd, r.memory, 2 * 4096, 0);
	CHECK(mr);
	CHECK(!ibv_reg_mr(r.pd, r.memory, 1, 0) && errno == ENOMEM);
	CHECK(ibv_dereg_mr(mr) == 0); // gives back what it had
	CHECK(ibv_reg_mr(r.pd, r.memory, 2 * 4096, 0));
}

static void register_unmapped(void)
{
	struct rig r = rig_open();
	CHECK(munmap(r.memory + 4096, 4096) == 0);
	CHECK(!ibv_reg_mr(r.pd, r.memory, 3 * 4096, 0) && errno == EFAULT);
}

static void register_read_only(void)
{
	struct rig r = rig_open();
	CHECK(mprotect(r.memory, 4096, PROT_READ) == 0);
	CHECK(ibv_reg_mr(r.pd, r.memory, 4096, 0));
	CHECK(!ibv_reg_mr(r.pd, r.memory, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
}

static void register_nothing(void)
{
	struct rig r = rig_open();
	CHECK(!ibv_reg_mr(r.pd, r.memory, 0, 0) && errno == EINVAL);
}

static void register_remote_write(void)
{
	struct rig r = rig_open();
	int access = IBV_ACCESS_REMOTE_WRITE;
	CHECK(!ibv_reg_mr(r.pd, r.memory, 4096, access) && errno == EINVAL);
	access |= IBV_ACCESS_LOCAL_WRITE;
	CHECK(ibv_reg_mr(r.pd, r.memory, 4096, access));
}

// Work requests name the bytes by an address of the caller's choice.
static void own_addresses(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	struct ibv_mr *mr = ibv_reg_mr_iova(r.pd, r.memory, 2 * SLOT, 0x100000,
					    IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->addr == r.memory);
	struct ibv_sge sge = {0x100000 + SLOT, SLOT, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(ibv_post_recv(r.qp, &wr, &bad) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_poll(r.recv_cq).status == IBV_WC_SUCCESS);
	CHECK(memcmp(rig_slot(&r, 1), THERE, 6) == 0);
}

static void domain_with_region(void)
{
	struct rig r = rig_open();
	struct ibv_pd *pd = ibv_alloc_pd(r.context);
	struct ibv_mr *mr = ibv_reg_mr(pd, r.memory, 1, 0);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
}

static void domain_with_queue_pair(void)
{
	struct rig r = rig_open();
	CHECK(ibv_dereg_mr(r.mr) == 0);
	CHECK(ibv_dealloc_pd(r.pd) == EBUSY);
	CHECK(ibv_destroy_qp(r.qp) == 0 && ibv_dealloc_pd(r.pd) == 0);
}

static void completion_queue_with_queue_pair(void)
{
	struct rig r = rig_open();
	CHECK(ibv_destroy_cq(r.send_cq) == EBUSY);
	CHECK(ibv_destroy_cq(r.recv_cq) == EBUSY);
	CHECK(ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_destroy_cq(r.send_cq) == 0 && ibv_destroy_cq(r.recv_cq) == 0);
}

static void channel_with_completion_queue(void)
{
	struct rig r = rig_cold(8, 1);
	CHECK(r.channel->refcnt == 2);
	CHECK(ibv_destroy_comp_channel(r.channel) == EBUSY);
	CHECK(ibv_destroy_qp(r.qp) == 0);
	CHECK(ibv_destroy_cq(r.send_cq) == 0 && ibv_destroy_cq(r.recv_cq) == 0);
	CHECK(ibv_destroy_comp_channel(r.channel) == 0);
}

static void queue_pair_with_flow(void)
{
	struct rig r = rig_open();
	struct ibv_flow *flow = rig_steer(r.qp, 7);
	CHECK(ibv_destroy_qp(r.qp) == EBUSY);
	CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_qp(r.qp) == 0);
}

static void device_with_objects(void)
{
	struct rig r = rig_open();
	CHECK(rig_steer(r.qp, 7));
	// As the kernel: it all goes away.
	CHECK(ibv_close_device(r.context) == 0);
	CHECK(ibv_close_device(r.context) == -1 && errno == EINVAL);
}

// Everything in the right order, twice: nothing stays behind.
static void orderly(void)
{
	for (int i = 0; i < 2; i++) {
		struct rig r = rig_cold(8, 1);
		struct ibv_flow *flow = rig_steer(r.qp, 7);
		CHECK(flow && ibv_destroy_flow(flow) == 0);
		CHECK(ibv_destroy_qp(r.qp) == 0);
		CHECK(ibv_destroy_cq(r.send_cq) == 0 && ibv_destroy_cq(r.recv_cq) == 0);
		CHECK(ibv_destroy_comp_channel(r.channel) == 0);
		CHECK(ibv_dereg_mr(r.mr) == 0 && ibv_dealloc_pd(r.pd) == 0);
		CHECK(ibv_close_device(r.context) == 0);
	}
}

static void region_twice(void)
{
	struct rig r = rig_open();
	CHECK(ibv_dereg_mr(r.mr) == 0 && ibv_dereg_mr(r.mr) == EINVAL);
}

static void queue_pair_after_its_end(void)
{
	struct rig r = rig_open();
	CHECK(ibv_destroy_qp(r.qp) == 0);
	CHECK(rig_send(&r, 7, 30) == EINVAL);
	CHECK(rig_post(&r, r.qp, 0, r.mr->lkey) == EINVAL);
	CHECK(rig_move(r.qp, IBV_QPS_RESET) == EINVAL);
	CHECK(!rig_steer(r.qp, 7) && errno == EINVAL);
	CHECK(ibv_destroy_qp(r.qp) == EINVAL);
}

static void completion_queue_after_its_end(void)
{
	struct rig r = rig_open();
	CHECK(ibv_destroy_qp(r.qp) == 0 && ibv_destroy_cq(r.send_cq) == 0);
	CHECK(ibv_poll_cq(r.send_cq, 1, &(struct ibv_wc){0}) < 0);
	CHECK(ibv_req_notify_cq(r.send_cq, 0) == EINVAL);
	CHECK(!rig_qp(&r) && errno == EINVAL);
}

static void flow_twice(void)
{
	struct rig r = rig_open();
	struct ibv_flow *flow = rig_steer(r.qp, 7);
	CHECK(ibv_destroy_flow(flow) == 0 && ibv_destroy_flow(flow) == EINVAL);
}

static void domain_after_its_end(void)
{
	struct rig r = rig_open();
	struct ibv_pd *pd = ibv_alloc_pd(r.context);
	CHECK(ibv_dealloc_pd(pd) == 0);
	CHECK(!ibv_reg_mr(pd, r.memory, 1, 0) && errno == EINVAL);
}

static void device_after_its_list(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count == 1 && list[1] == NULL);
	struct ibv_device *device = list[0];
	CHECK(strcmp(ibv_get_device_name(device), "softverbs_lo") == 0);
	ibv_free_device_list(list);
	CHECK(!ibv_open_device(device) && errno == EINVAL);
}

// A card lets the region go and finds out when a frame comes.
static void region_in_use(void)
{
	struct rig r = rig_open();
	struct ibv_mr *mr = ibv_reg_mr(r.pd, r.memory, SLOT, IBV_ACCESS_LOCAL_WRITE);
	CHECK(rig_steer(r.qp, 7) && rig_post(&r, r.qp, 0, mr->lkey) == 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(rig_send(&r, 7, 30) == 0);
	CHECK(rig_poll(r.recv_cq).status == IBV_WC_LOC_PROT_ERR);
}

// How a child that touches the memory ends: 0, or the signal.
static int child_reads(volatile uint8_t *memory)
{
	pid_t child = fork();
	if (child == 0)
		_exit(memory[0] == 0x77 ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void kept_from_children(void)
{
	int asked = getenv("RDMAV_FORK_SAFE") != NULL;
	CHECK(ibv_is_fork_initialized() == (asked ? IBV_FORK_ENABLED : IBV_FORK_DISABLED));
	CHECK(asked || ibv_fork_init() == 0);
	CHECK(ibv_is_fork_initialized() == IBV_FORK_ENABLED);
	struct rig r = rig_open();
	memset(r.memory, 0x77, 8192);
	struct ibv_mr *again = ibv_reg_mr(r.pd, r.memory + 4096, 100, 0);
	CHECK(again && child_reads(r.memory) == SIGSEGV);
	CHECK(ibv_dereg_mr(r.mr) == 0);
	CHECK(child_reads(r.memory) == 0);
	CHECK(child_reads(r.memory + 4096) == SIGSEGV); // the other region covers it
	CHECK(ibv_dereg_mr(again) == 0 && child_reads(r.memory + 4096) == 0);
}

static void fork_init_too_late(void)
{
	rig_open();
	CHECK(ibv_fork_init() == EINVAL);
}

// A child has no part in its parent's objects, but may open its own.
static void in_a_child(void)
{
	struct rig r = rig_open();
	pid_t child = fork();
	if (child == 0) {
		struct rig own = rig_open();
		CHECK(rig_send(&own, 7, 30) == 0);
		CHECK(rig_send(&r, 7, 30) == EIO);
		CHECK(ibv_poll_cq(r.send_cq, 1, &(struct ibv_wc){0}) == -EIO);
		CHECK(!ibv_alloc_pd(r.context) && errno == EIO);
		CHECK(ibv_destroy_qp(r.qp) == EIO && ibv_dereg_mr(r.mr) == EIO);
		CHECK(ibv_destroy_cq(r.send_cq) == EIO && ibv_dealloc_pd(r.pd) == EIO);
		CHECK(ibv_close_device(r.context) == -1 && errno == EIO);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	CHECK(status == 0 && rig_send(&r, 7, 30) == 0);
}

static void too_much(void)
{
	struct rig r = rig_open();
	r.cap.max_send_wr = 32769;
	CHECK(!rig_qp(&r) && errno == EINVAL);
}

static void completion_queue_too_big(void)
{
	struct rig r = rig_open();
	struct ibv_device_attr attr;
	CHECK(ibv_query_device(r.context, &attr) == 0);
	CHECK(ibv_create_cq(r.context, attr.max_cqe, NULL, NULL, 0));
	CHECK(!ibv_create_cq(r.context, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(r.context, attr.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL);
}

static void completion_vector(void)
{
	struct rig r = rig_open();
	int last = r.context->num_comp_vectors - 1;
	CHECK(ibv_create_cq(r.context, 1, NULL, NULL, last));
	CHECK(!ibv_create_cq(r.context, 1, NULL, NULL, last + 1) && errno == EINVAL);
}

CASES(CASE(no_net_raw), CASE(locked_memory), CASE(register_unmapped), CASE(register_read_only),
      CASE(register_nothing), CASE(register_remote_write), CASE(own_addresses),
      CASE(domain_with_region), CASE(domain_with_queue_pair),
      CASE(completion_queue_with_queue_pair), CASE(channel_with_completion_queue),
      CASE(queue_pair_with_flow), CASE(device_with_objects), CASE(orderly), CASE(region_twice),
      CASE(queue_pair_after_its_end), CASE(completion_queue_after_its_end), CASE(flow_twice),
      CASE(domain_after_its_end), CASE(device_after_its_list), CASE(region_in_use),
      CASE(kept_from_children), CASE(fork_init_too_late), CASE(in_a_child), CASE(too_much),
      CASE(completion_queue_too_big), CASE(completion_vector))
