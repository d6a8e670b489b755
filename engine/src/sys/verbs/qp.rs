//! Raw packet queue pairs and flow rules.
//!
//! Owns both; a queue pair outlives its rules, and the memory that its work requests name
//! outlives it. Source: ibv_create_qp(3), ibv_modify_qp(3), ibv_create_flow(3).

use super::abi::{ExtendedContext, RuleAttr};
use super::cq::{CompletionQueue, Shared};
use super::device::{Context, Domain, check, extended, last_error};
use super::memory::Region;
use crate::error::Errno;
use crate::sys::foreign;
use ibv::{ibv_qp_attr_mask as Mask, ibv_qp_state as State};
use ibverbs_sys as ibv;
use std::ffi::c_int;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::Ipv4Addr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sizes of a queue pair, wanted or granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSizes {
    /// Receive requests.
    pub receives: u32,
    /// Send requests.
    pub sends: u32,
    /// Bytes that a send request itself may hold.
    pub inline: u32,
}

/// The memory of a queue pair: what comes in the front, what goes in the back.
#[derive(Debug)]
pub struct Memory {
    /// All of it, this queue pair's alone.
    pub region: Region,
    /// Bytes for what comes.
    pub receive: usize,
}

impl Memory {
    pub(super) fn receive_len(&self) -> usize {
        self.receive.min(self.region.len())
    }

    pub(super) fn send_len(&self) -> usize {
        self.region.len() - self.receive_len()
    }
}

/// A raw packet queue pair.
#[derive(Debug)]
pub struct QueuePair {
    pub(super) raw: NonNull<ibv::ibv_qp>,
    granted: QpSizes,
    pub(super) memory: Memory,
    /// Whether each part of the memory has found its ring: there is one of each.
    pub(super) receiving: AtomicBool,
    pub(super) sending: AtomicBool,
    domain: Arc<Domain>,
    // After `drop` has destroyed the queue pair.
    _completions: [Arc<Shared>; 2],
}

// SAFETY: see `Context`; the library locks each of the two work queues by itself.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// Makes one in the state RESET. It takes the memory over unless it fails.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW; EINVAL, EOPNOTSUPP where the device has no raw packets;
    /// ENOMEM, ENOSPC when it has no more queue pairs.
    pub fn new(
        domain: &Arc<Domain>,
        send: &CompletionQueue,
        receive: &CompletionQueue,
        memory: &mut Option<Memory>,
        sizes: QpSizes,
    ) -> Result<Arc<Self>, Errno> {
        let _inside = foreign::enter();
        let mut attr = ibv::ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: send.shared.raw.as_ptr(),
            recv_cq: receive.shared.raw.as_ptr(),
            srq: ptr::null_mut(),
            cap: ibv::ibv_qp_cap {
                max_send_wr: sizes.sends,
                max_recv_wr: sizes.receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: sizes.inline,
            },
            qp_type: ibv::ibv_qp_type::IBV_QPT_RAW_PACKET,
            sq_sig_all: 0,
        };
        let make = domain.context.functions.ibv_create_qp;
        // SAFETY: domain and completion queues are alive, and of the same device.
        let raw = unsafe { make(domain.raw.as_ptr(), &raw mut attr) };
        let raw = NonNull::new(raw).ok_or_else(last_error)?;
        let Some(memory) = memory.take() else {
            // SAFETY: made just now; nothing uses it.
            let _ = unsafe { (domain.context.functions.ibv_destroy_qp)(raw.as_ptr()) };
            return Err(Errno::INVAL);
        };
        Ok(Arc::new(Self {
            raw,
            granted: QpSizes {
                receives: attr.cap.max_recv_wr,
                sends: attr.cap.max_send_wr,
                inline: attr.cap.max_inline_data,
            },
            memory,
            receiving: AtomicBool::new(false),
            sending: AtomicBool::new(false),
            domain: Arc::clone(domain),
            _completions: [Arc::clone(&send.shared), Arc::clone(&receive.shared)],
        }))
    }

    /// RESET to INIT on a port; receives may be posted from here on.
    ///
    /// # Errors
    /// The device's.
    pub fn initialise(&self, port: u8) -> Result<(), Errno> {
        let mask = Mask::IBV_QP_STATE | Mask::IBV_QP_PORT;
        self.modify(State::IBV_QPS_INIT, port, mask)
    }

    /// INIT to RTR to RTS: it receives and sends.
    ///
    /// # Errors
    /// The device's.
    pub fn start(&self) -> Result<(), Errno> {
        self.modify(State::IBV_QPS_RTR, 0, Mask::IBV_QP_STATE)?;
        self.modify(State::IBV_QPS_RTS, 0, Mask::IBV_QP_STATE)
    }

    /// To ERR: what is outstanding comes back flushed.
    ///
    /// # Errors
    /// The device's.
    pub fn stop(&self) -> Result<(), Errno> {
        self.modify(State::IBV_QPS_ERR, 0, Mask::IBV_QP_STATE)
    }

    fn modify(&self, state: State::Type, port: u8, mask: Mask) -> Result<(), Errno> {
        let _inside = foreign::enter();
        // SAFETY: all zeros is a value of this plain structure.
        let mut attr: ibv::ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attr.qp_state = state;
        attr.port_num = port;
        let modify = self.domain.context.functions.ibv_modify_qp;
        // SAFETY: the queue pair is alive; the structure lives as long as the call.
        check(unsafe { modify(self.raw.as_ptr(), &raw mut attr, mask.0 as c_int) })
    }

    pub(super) fn context(&self) -> &Context {
        &self.domain.context
    }

    /// What the device has granted.
    #[must_use]
    pub fn granted(&self) -> QpSizes {
        self.granted
    }

    /// Its identity in asynchronous events.
    #[must_use]
    pub fn identity(&self) -> usize {
        self.raw.as_ptr().addr()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: its rules hold an Arc, so that none is left.
        let _ = unsafe { (self.domain.context.functions.ibv_destroy_qp)(self.raw.as_ptr()) };
    }
}

/// What a flow rule takes. Every mask is exact: rules that overlap without being equal do
/// not copy on every card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleSpec {
    /// Destination MAC address.
    pub mac: [u8; 6],
    /// IPv4 and UDP; None: the MAC address alone.
    pub udp: Option<UdpSpec>,
    /// The device's port, from 1.
    pub port: u8,
    /// Others on the host get the frames too (IBV_FLOW_ATTR_FLAGS_DONT_TRAP).
    pub shared: bool,
}

/// The upper part of a [`RuleSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpSpec {
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Destination port; 0: every port, and fragments, which no rule with a port takes.
    pub port: u16,
    /// Source address and port.
    pub peer: Option<(Ipv4Addr, u16)>,
}

const ETHERTYPE_IPV4: u16 = 0x0800;

impl RuleSpec {
    fn takes_whole_group(&self) -> bool {
        self.udp.is_some_and(|udp| udp.port == 0)
    }

    /// As the library wants it. Numbers within the specifications are in network order.
    fn attr(&self) -> RuleAttr {
        let whole = self.takes_whole_group();
        let (specs, size) = match self.udp {
            None => (1, offset_of!(RuleAttr, ipv4)),
            Some(_) if whole => (2, offset_of!(RuleAttr, udp)),
            Some(_) => (3, size_of::<RuleAttr>()),
        };
        let ethertype = if self.udp.is_some() {
            (ETHERTYPE_IPV4.to_be(), u16::MAX)
        } else {
            (0, 0)
        };
        let ethernet = |dst_mac, ether_type| ibv::ibv_flow_eth_filter {
            dst_mac,
            src_mac: [0; 6],
            ether_type,
            vlan_tag: 0,
        };
        let udp = self.udp.unwrap_or(UdpSpec {
            destination: Ipv4Addr::UNSPECIFIED,
            port: 0,
            peer: None,
        });
        let (source, source_port) = udp.peer.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        let of_peer = |mask| if udp.peer.is_some() { mask } else { 0 };
        RuleAttr {
            attr: ibv::ibv_flow_attr {
                comp_mask: 0,
                type_: ibv::IBV_FLOW_ATTR_NORMAL,
                size: size as u16,
                // A shared rule stands behind an ordinary one for the same flow: while one
                // takes the other's place, every frame meets exactly one of them. Of rules
                // that overlap only one of a priority delivers: a whole group has its own.
                priority: u16::from(self.shared) + u16::from(whole),
                num_of_specs: specs,
                port: self.port,
                flags: if self.shared {
                    ibv::IBV_FLOW_ATTR_FLAGS_DONT_TRAP
                } else {
                    0
                },
            },
            eth: ibv::ibv_flow_spec_eth {
                type_: ibv::IBV_FLOW_SPEC_ETH,
                size: size_of::<ibv::ibv_flow_spec_eth>() as u16,
                val: ethernet(self.mac, ethertype.0),
                mask: ethernet([0xff; 6], ethertype.1),
            },
            ipv4: ibv::ibv_flow_spec_ipv4 {
                type_: ibv::IBV_FLOW_SPEC_IPV4,
                size: size_of::<ibv::ibv_flow_spec_ipv4>() as u16,
                val: ibv::ibv_flow_ipv4_filter {
                    src_ip: source.to_bits().to_be(),
                    dst_ip: udp.destination.to_bits().to_be(),
                },
                mask: ibv::ibv_flow_ipv4_filter {
                    src_ip: of_peer(u32::MAX),
                    dst_ip: u32::MAX,
                },
            },
            udp: ibv::ibv_flow_spec_tcp_udp {
                type_: ibv::IBV_FLOW_SPEC_UDP,
                size: size_of::<ibv::ibv_flow_spec_tcp_udp>() as u16,
                val: ibv::ibv_flow_tcp_udp_filter {
                    dst_port: udp.port.to_be(),
                    src_port: source_port.to_be(),
                },
                mask: ibv::ibv_flow_tcp_udp_filter {
                    dst_port: u16::MAX,
                    src_port: of_peer(u32::MAX) as u16,
                },
            },
        }
    }
}

/// A flow rule in the device; gone on drop.
#[derive(Debug)]
pub struct Rule {
    raw: NonNull<ibv::ibv_flow>,
    pair: Arc<QueuePair>,
}

// SAFETY: see `Context`.
unsafe impl Send for Rule {}
// SAFETY: see `Context`.
unsafe impl Sync for Rule {}

impl Rule {
    /// Steers what the specification says to a queue pair.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC, EBUSY: the device takes no more; EOPNOTSUPP, EINVAL: not such a one.
    pub fn create(pair: &Arc<QueuePair>, spec: &RuleSpec) -> Result<Self, Errno> {
        let _inside = foreign::enter();
        let context = &pair.domain.context;
        let make = extended!(context, create_flow).ok_or(Errno(libc::EOPNOTSUPP))?;
        let mut attr = spec.attr();
        // SAFETY: the queue pair is alive; `size` of the structure covers the
        // specifications that follow in it.
        let raw = unsafe { make(pair.raw.as_ptr(), (&raw mut attr).cast()) };
        Ok(Self {
            raw: NonNull::new(raw).ok_or_else(last_error)?,
            pair: Arc::clone(pair),
        })
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        if let Some(destroy) = extended!(self.pair.domain.context, destroy_flow) {
            // SAFETY: made by `create`, destroyed once.
            let _ = unsafe { destroy(self.raw.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(spec: &RuleSpec) -> Vec<u8> {
        let attr = spec.attr();
        let size = usize::from(attr.attr.size);
        // The structures have padding, which has no value: copied field by field, by hand.
        let mut out = vec![0u8; size_of::<RuleAttr>()];
        let mut put = |at: usize, field: &[u8]| out[at..at + field.len()].copy_from_slice(field);
        let (a, e, i, u) = (attr.attr, attr.eth, attr.ipv4, attr.udp);
        put(0, &a.comp_mask.to_ne_bytes());
        put(4, &a.type_.to_ne_bytes());
        put(8, &a.size.to_ne_bytes());
        put(10, &a.priority.to_ne_bytes());
        put(12, &[a.num_of_specs, a.port]);
        put(16, &a.flags.to_ne_bytes());
        put(20, &e.type_.to_ne_bytes());
        put(24, &e.size.to_ne_bytes());
        for (at, f) in [(26, e.val), (42, e.mask)] {
            put(at, &f.dst_mac);
            put(at + 6, &f.src_mac);
            put(at + 12, &f.ether_type.to_ne_bytes());
            put(at + 14, &f.vlan_tag.to_ne_bytes());
        }
        put(60, &i.type_.to_ne_bytes());
        put(64, &i.size.to_ne_bytes());
        for (at, f) in [(68, i.val), (76, i.mask)] {
            put(at, &f.src_ip.to_ne_bytes());
            put(at + 4, &f.dst_ip.to_ne_bytes());
        }
        put(84, &u.type_.to_ne_bytes());
        put(88, &u.size.to_ne_bytes());
        for (at, f) in [(90, u.val), (94, u.mask)] {
            put(at, &f.dst_port.to_ne_bytes());
            put(at + 2, &f.src_port.to_ne_bytes());
        }
        out.truncate(size);
        out
    }

    fn offsets() {
        use std::mem::offset_of as at;
        assert_eq!(at!(ibv::ibv_flow_spec_eth, val), 6);
        assert_eq!(at!(ibv::ibv_flow_spec_eth, mask), 22);
        assert_eq!(at!(ibv::ibv_flow_spec_ipv4, val), 8);
        assert_eq!(at!(ibv::ibv_flow_spec_ipv4, mask), 16);
        assert_eq!(at!(ibv::ibv_flow_spec_tcp_udp, val), 6);
        assert_eq!(at!(ibv::ibv_flow_spec_tcp_udp, mask), 10);
        assert_eq!(at!(RuleAttr, eth), 20);
        assert_eq!(at!(RuleAttr, ipv4), 60);
        assert_eq!(at!(RuleAttr, udp), 84);
    }

    #[test]
    fn a_connected_flow_as_the_card_reads_it() {
        offsets();
        let spec = RuleSpec {
            mac: [2, 0, 0, 0, 0, 9],
            udp: Some(UdpSpec {
                destination: Ipv4Addr::new(10, 77, 1, 2),
                port: 0x1234,
                peer: Some((Ipv4Addr::new(10, 77, 1, 1), 0x5678)),
            }),
            port: 1,
            shared: false,
        };
        #[rustfmt::skip]
        let expected: Vec<u8> = vec![
            0, 0, 0, 0,  0, 0, 0, 0,  100, 0,  0, 0,  3, 1, 0, 0,  0, 0, 0, 0,
            0x20, 0, 0, 0,  40, 0,
            2, 0, 0, 0, 0, 9,  0, 0, 0, 0, 0, 0,  8, 0,  0, 0,
            255, 255, 255, 255, 255, 255,  0, 0, 0, 0, 0, 0,  255, 255,  0, 0,  0, 0,
            0x30, 0, 0, 0,  24, 0, 0, 0,
            10, 77, 1, 1,  10, 77, 1, 2,  255, 255, 255, 255,  255, 255, 255, 255,
            0x41, 0, 0, 0,  16, 0,
            0x12, 0x34,  0x56, 0x78,  255, 255,  255, 255,  0, 0,
        ];
        assert_eq!(bytes(&spec), expected);
    }

    #[test]
    fn a_shared_flow_stands_behind_and_lets_matching_go_on() {
        let spec = RuleSpec {
            mac: [1, 0, 0x5e, 1, 2, 3],
            udp: Some(UdpSpec {
                destination: Ipv4Addr::new(239, 1, 2, 3),
                port: 0x1234,
                peer: None,
            }),
            port: 2,
            shared: true,
        };
        let bytes = bytes(&spec);
        assert_eq!(bytes[10..20], [1, 0, 3, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!(
            bytes[68..84],
            [0, 0, 0, 0, 239, 1, 2, 3, 0, 0, 0, 0, 255, 255, 255, 255]
        );
        assert_eq!(bytes[90..98], [0x12, 0x34, 0, 0, 255, 255, 0, 0]);
    }

    #[test]
    fn a_whole_group_is_told_by_its_address() {
        let spec = RuleSpec {
            mac: [1, 0, 0x5e, 1, 2, 3],
            udp: Some(UdpSpec {
                destination: Ipv4Addr::new(239, 1, 2, 3),
                port: 0,
                peer: None,
            }),
            port: 1,
            shared: true,
        };
        let bytes = bytes(&spec);
        assert_eq!(bytes.len(), 84, "no ports");
        assert_eq!(bytes[8..14], [84, 0, 2, 0, 2, 1]);
        assert_eq!(bytes[72..76], [239, 1, 2, 3]);
    }

    #[test]
    fn a_mac_address_alone() {
        let spec = RuleSpec {
            mac: [1, 0, 0x5e, 1, 2, 3],
            udp: None,
            port: 1,
            shared: false,
        };
        let bytes = bytes(&spec);
        assert_eq!(bytes.len(), 60);
        assert_eq!(bytes[8..14], [60, 0, 0, 0, 1, 1]);
        assert_eq!(bytes[38..40], [0, 0], "any EtherType");
        assert_eq!(bytes[54..56], [0, 0]);
    }
}
