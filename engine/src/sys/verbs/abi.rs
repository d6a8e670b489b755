//! What the bindings lack: structures of `<infiniband/verbs.h>` that they leave out, and
//! the operations that exist as inline functions of the header only.
//!
//! Source: rdma-core's libibverbs/verbs.h, ABI `IBVERBS_1.x` with the extended context. The
//! extended context grows at its front, so that what is declared here stays where it is
//! for ever; `sz` says how much of it a library has. A test compiles the header and
//! compares ([`LAYOUT`]).

use ibverbs_sys as ibv;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

/// `struct ibv_wc`: a work completion.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct WorkCompletion {
    /// Identity of the work request.
    pub wr_id: u64,
    /// `enum ibv_wc_status`; 0 is success.
    pub status: c_uint,
    /// `enum ibv_wc_opcode`; undefined unless successful.
    pub opcode: c_uint,
    /// Vendor's error code.
    pub vendor_err: u32,
    /// Bytes received.
    pub byte_len: u32,
    /// Immediate data.
    pub imm_data: u32,
    /// The queue pair.
    pub qp_num: u32,
    /// The sender's queue pair.
    pub src_qp: u32,
    /// `enum ibv_wc_flags`.
    pub wc_flags: c_uint,
    /// P_Key index.
    pub pkey_index: u16,
    /// The sender's LID.
    pub slid: u16,
    /// Service level.
    pub sl: u8,
    /// Path bits.
    pub dlid_path_bits: u8,
}

/// IBV_WC_IP_CSUM_OK: the card found the checksums of IPv4 and of UDP right.
pub const WC_IP_CSUM_OK: c_uint = 1 << 2;
/// IBV_WC_WR_FLUSH_ERR: the request was outstanding when the queue pair went to error.
pub const WC_FLUSHED: c_uint = 5;

/// IBV_SEND_SIGNALED.
pub const SEND_SIGNALED: c_uint = 1 << 1;
/// IBV_SEND_INLINE.
pub const SEND_INLINE: c_uint = 1 << 3;
/// IBV_SEND_IP_CSUM: the card writes the checksums of IPv4 and of UDP.
pub const SEND_IP_CSUM: c_uint = 1 << 4;

/// IBV_NODE_RNIC: an iWARP card.
pub const NODE_RNIC: c_int = 4;

type Op = Option<unsafe extern "C" fn()>;

/// `struct verbs_context`; the operations that nobody here calls have no type.
#[repr(C)]
pub(super) struct ExtendedContext {
    unused_front: [Op; 17],
    pub(super) modify_cq:
        Option<unsafe extern "C" fn(*mut ibv::ibv_cq, *mut ibv::ibv_modify_cq_attr) -> c_int>,
    unused_queues: [Op; 7],
    pub(super) create_cq_ex: Option<
        unsafe extern "C" fn(
            *mut ibv::ibv_context,
            *mut ibv::ibv_cq_init_attr_ex,
        ) -> *mut ibv::ibv_cq_ex,
    >,
    private: *mut c_void,
    pub(super) query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv::ibv_context,
            *const c_void,
            *mut ibv::ibv_device_attr_ex,
            usize,
        ) -> c_int,
    >,
    pub(super) destroy_flow: Option<unsafe extern "C" fn(*mut ibv::ibv_flow) -> c_int>,
    placeholder2: Op,
    pub(super) create_flow: Option<
        unsafe extern "C" fn(*mut ibv::ibv_qp, *mut ibv::ibv_flow_attr) -> *mut ibv::ibv_flow,
    >,
    placeholder1: Op,
    unused_back: [Op; 6],
    placeholder3: u64,
    /// Bytes of the structure, as the library was built.
    pub(super) sz: usize,
    pub(super) context: ibv::ibv_context,
}

/// Flow rule: what every frame of a kind has in common, one header after the other.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RuleAttr {
    pub(super) attr: ibv::ibv_flow_attr,
    pub(super) eth: ibv::ibv_flow_spec_eth,
    pub(super) ipv4: ibv::ibv_flow_spec_ipv4,
    pub(super) udp: ibv::ibv_flow_spec_tcp_udp,
}

/// Names, offsets and sizes as C sees them, for the test that compiles the header.
pub const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct ibv_wc)", size_of::<WorkCompletion>()),
    (
        "offsetof(struct ibv_wc, byte_len)",
        offset_of!(WorkCompletion, byte_len),
    ),
    (
        "offsetof(struct ibv_wc, wc_flags)",
        offset_of!(WorkCompletion, wc_flags),
    ),
    (
        "offsetof(struct ibv_wc, dlid_path_bits)",
        offset_of!(WorkCompletion, dlid_path_bits),
    ),
    ("IBV_WC_IP_CSUM_OK", WC_IP_CSUM_OK as usize),
    ("IBV_WC_WR_FLUSH_ERR", WC_FLUSHED as usize),
    ("IBV_SEND_SIGNALED", SEND_SIGNALED as usize),
    ("IBV_SEND_INLINE", SEND_INLINE as usize),
    ("IBV_SEND_IP_CSUM", SEND_IP_CSUM as usize),
    ("IBV_NODE_RNIC", NODE_RNIC as usize),
    ("sizeof(struct verbs_context)", size_of::<ExtendedContext>()),
    (
        "offsetof(struct verbs_context, modify_cq)",
        offset_of!(ExtendedContext, modify_cq),
    ),
    (
        "offsetof(struct verbs_context, create_cq_ex)",
        offset_of!(ExtendedContext, create_cq_ex),
    ),
    (
        "offsetof(struct verbs_context, query_device_ex)",
        offset_of!(ExtendedContext, query_device_ex),
    ),
    (
        "offsetof(struct verbs_context, ibv_destroy_flow)",
        offset_of!(ExtendedContext, destroy_flow),
    ),
    (
        "offsetof(struct verbs_context, ibv_create_flow)",
        offset_of!(ExtendedContext, create_flow),
    ),
    (
        "offsetof(struct verbs_context, sz)",
        offset_of!(ExtendedContext, sz),
    ),
    (
        "offsetof(struct verbs_context, context)",
        offset_of!(ExtendedContext, context),
    ),
    ("sizeof(struct ibv_context)", size_of::<ibv::ibv_context>()),
    (
        "offsetof(struct ibv_context, async_fd)",
        offset_of!(ibv::ibv_context, async_fd),
    ),
    ("sizeof(struct ibv_device)", size_of::<ibv::ibv_device>()),
    (
        "offsetof(struct ibv_device, ibdev_path)",
        offset_of!(ibv::ibv_device, ibdev_path),
    ),
    (
        "sizeof(struct ibv_device_attr_ex)",
        size_of::<ibv::ibv_device_attr_ex>(),
    ),
    (
        "offsetof(struct ibv_device_attr_ex, raw_packet_caps)",
        offset_of!(ibv::ibv_device_attr_ex, raw_packet_caps),
    ),
    ("sizeof(struct ibv_cq_ex)", size_of::<ibv::ibv_cq_ex>()),
    (
        "offsetof(struct ibv_cq_ex, read_completion_wallclock_ns)",
        offset_of!(ibv::ibv_cq_ex, read_completion_wallclock_ns),
    ),
    ("sizeof(struct ibv_qp)", size_of::<ibv::ibv_qp>()),
    (
        "sizeof(struct ibv_qp_init_attr)",
        size_of::<ibv::ibv_qp_init_attr>(),
    ),
    ("sizeof(struct ibv_qp_attr)", size_of::<ibv::ibv_qp_attr>()),
    ("sizeof(struct ibv_send_wr)", size_of::<ibv::ibv_send_wr>()),
    ("sizeof(struct ibv_recv_wr)", size_of::<ibv::ibv_recv_wr>()),
    ("sizeof(struct ibv_sge)", size_of::<ibv::ibv_sge>()),
    (
        "sizeof(struct ibv_async_event)",
        size_of::<ibv::ibv_async_event>(),
    ),
    (
        "sizeof(struct ibv_flow_attr)",
        size_of::<ibv::ibv_flow_attr>(),
    ),
    (
        "sizeof(struct ibv_flow_spec_eth)",
        size_of::<ibv::ibv_flow_spec_eth>(),
    ),
    (
        "sizeof(struct ibv_flow_spec_ipv4)",
        size_of::<ibv::ibv_flow_spec_ipv4>(),
    ),
    (
        "sizeof(struct ibv_flow_spec_tcp_udp)",
        size_of::<ibv::ibv_flow_spec_tcp_udp>(),
    ),
];

// LP64 Linux. The flow rule is read as one run of bytes: nothing may lie between its parts.
const _: () = {
    assert!(size_of::<WorkCompletion>() == 48 && offset_of!(WorkCompletion, wc_flags) == 36);
    assert!(size_of::<ExtendedContext>() == 648);
    assert!(offset_of!(ExtendedContext, context) == 320);
    assert!(offset_of!(ExtendedContext, context) - offset_of!(ExtendedContext, sz) == 8);
    assert!(offset_of!(RuleAttr, eth) == size_of::<ibv::ibv_flow_attr>());
    assert!(offset_of!(RuleAttr, ipv4) - offset_of!(RuleAttr, eth) == 40);
    assert!(offset_of!(RuleAttr, udp) - offset_of!(RuleAttr, ipv4) == 24);
    assert!(size_of::<RuleAttr>() - offset_of!(RuleAttr, udp) == 16);
};
