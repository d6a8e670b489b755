//! Flow rules: `struct ibv_flow_attr` and the specifications behind it, checked as the kernel
//! and mlx5 do (ib_uverbs_ex_create_flow, drivers/infiniband/core/uverbs_cmd.c;
//! drivers/infiniband/hw/mlx5/fs.c), and turned into a wire's [`Rule`].

use crate::abi::*;
use crate::context::{Context, give, take};
use crate::handle::{self, Header, Object};
use crate::qp::QueuePair;
use crate::wire::{EthernetMatch, Ipv4Match, Masked, PortMatch, Rule, RuleId, RuleKind, Transport};
use crate::{privilege, settings, strict};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::fmt;
use std::net::Ipv4Addr;

/// Highest priority number: an mlx5 card has sixteen for applications.
const LAST_PRIORITY: u16 = 15;

/// One rule of one queue pair.
#[repr(C)]
pub(crate) struct Flow {
    abi: ibv_flow,
    header: Header,
    qp: &'static QueuePair,
    id: RuleId,
    rule: Rule,
}

// SAFETY: nothing of it changes but its mark.
unsafe impl Sync for Flow {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for Flow {
    type Abi = ibv_flow;
    const NAME: &'static str = "flow";
    const KIND: u16 = 8;
    fn header(&self) -> &Header {
        &self.header
    }
}

impl Flow {
    /// `ibv_create_flow`.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `EINVAL` for a specification that no card takes, `ENOMEM`
    /// for a priority it does not have or one rule too many, `EOPNOTSUPP` without steering.
    pub(crate) fn create(qp: &'static QueuePair, rule: &Rule) -> Result<&'static Self, Errno> {
        let context = qp.context;
        let s = settings::get();
        if !s.flow_steering {
            return Err(Errno::OPNOTSUPP);
        }
        if !privilege::has(CapabilitySet::NET_RAW) {
            return Err(Errno::PERM);
        }
        if rule.priority > LAST_PRIORITY {
            let text = format_args!("create_flow: priority {} of 0..=15", rule.priority);
            return Err(strict::violated(Errno::NOMEM, text));
        }
        take(&context.counts.flows, s.max_flows)?;
        match Self::attach(qp, context, rule) {
            Ok(flow) => Ok(flow),
            Err(errno) => {
                give(&context.counts.flows);
                Err(errno)
            }
        }
    }

    fn attach(
        qp: &'static QueuePair,
        context: &'static Context,
        rule: &Rule,
    ) -> Result<&'static Self, Errno> {
        let queue = qp.recv_cq.lock().queue_of(qp).ok_or(Errno::INVAL)?;
        let id = context.wire()?.attach(&*queue, rule)?;
        qp.rules.lock().push(id);
        Ok(handle::publish(Self {
            abi: ibv_flow {
                comp_mask: 0,
                context: context.pointer(),
                handle: context.number(),
            },
            header: Header::new(),
            qp,
            id,
            rule: *rule,
        }))
    }

    /// What it matches.
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// `ibv_destroy_flow`.
    ///
    /// # Errors
    /// `EINVAL` if it does not live.
    pub(crate) fn destroy(flow: *mut ibv_flow) -> Result<(), Errno> {
        let flow: &'static Self = handle::find(flow)?;
        flow.qp.context.owned()?;
        if handle::retire(flow) {
            if let Ok(wire) = flow.qp.context.wire() {
                wire.detach(flow.id);
            }
            flow.qp.rules.lock().retain(|id| *id != flow.id);
            give(&flow.qp.context.counts.flows);
        }
        Ok(())
    }
}

/// A rule in one line of the trace.
pub(crate) struct Shown<'a>(pub &'a Rule);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rule = self.0;
        write!(f, "priority={} dont_trap={}", rule.priority, rule.dont_trap)?;
        if rule.kind != RuleKind::Normal {
            write!(f, " kind={:?}", rule.kind)?;
        }
        if let Some(eth) = rule.ethernet {
            write!(f, " mac=")?;
            for (at, byte) in eth.destination.value.iter().enumerate() {
                write!(f, "{}{byte:02x}", if at == 0 { "" } else { ":" })?;
            }
            if eth.vlan.mask != 0 {
                write!(f, " vlan={}", eth.vlan.value)?;
            }
        }
        let end = |f: &mut fmt::Formatter, name: &str, address: Masked<u32>, port: Masked<u16>| {
            if address.mask != 0 || port.mask != 0 {
                let address = Ipv4Addr::from(address.value);
                write!(f, " {name}={address}:{}", port.value)?;
            }
            Ok(())
        };
        let ip = rule.ipv4.unwrap_or_default();
        let none = Masked::default();
        let (to, from) = rule
            .ports
            .map_or((none, none), |p| (p.destination, p.source));
        end(f, "dst", ip.destination, to)?;
        end(f, "src", ip.source, from)
    }
}

fn refused(rule: core::fmt::Arguments) -> Errno {
    strict::violated(Errno::INVAL, format_args!("create_flow: {rule}"))
}

/// Reads a rule with its specifications.
///
/// # Errors
/// `EINVAL` or `EOPNOTSUPP`, see [`Flow::create`].
///
/// # Safety
/// The attributes are followed by as many specifications as they say, each of its own size.
pub(crate) unsafe fn read(attr: *const ibv_flow_attr) -> Result<Rule, Errno> {
    // SAFETY: by this function's contract.
    let head = unsafe { attr.read_unaligned() };
    let mut rule = header(&head)?;
    let mut at = attr.cast::<u8>().wrapping_add(size_of::<ibv_flow_attr>());
    let mut size = size_of::<ibv_flow_attr>();
    for _ in 0..head.num_of_specs {
        // SAFETY: by this function's contract there is one more specification.
        let kind = unsafe { at.cast::<u32>().read_unaligned() };
        // SAFETY: as above; the size follows the type.
        let length = usize::from(unsafe { at.wrapping_add(4).cast::<u16>().read_unaligned() });
        if let Some(expected) = size_of_specification(kind)
            && length != expected
        {
            let text = format_args!("specification {kind:#x} of {length} bytes, not {expected}");
            return Err(refused(text));
        }
        // SAFETY: of a type known by `kind`, whose size was compared.
        unsafe { specification(&mut rule, kind, at) }?;
        at = at.wrapping_add(length);
        size += length;
    }
    if usize::from(head.size) != size {
        let text = format_args!("size {} of {size} bytes in all", head.size);
        return Err(refused(text));
    }
    consistent(&rule)?;
    Ok(rule)
}

fn header(head: &ibv_flow_attr) -> Result<Rule, Errno> {
    let kind = match head.r#type {
        IBV_FLOW_ATTR_NORMAL => RuleKind::Normal,
        IBV_FLOW_ATTR_ALL_DEFAULT => RuleKind::AllDefault,
        IBV_FLOW_ATTR_MC_DEFAULT => RuleKind::MulticastDefault,
        IBV_FLOW_ATTR_SNIFFER => RuleKind::Sniffer,
        other => return Err(refused(format_args!("type {other}"))),
    };
    let dont_trap = head.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0;
    if head.flags & IBV_FLOW_ATTR_FLAGS_EGRESS != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if head.comp_mask != 0 || head.flags & !IBV_FLOW_ATTR_FLAGS_DONT_TRAP != 0 {
        let text = format_args!("flags {:#x}, comp_mask {:#x}", head.flags, head.comp_mask);
        return Err(refused(text));
    }
    if head.port != 1 {
        return Err(refused(format_args!("port {}", head.port)));
    }
    if kind != RuleKind::Normal && (dont_trap || head.num_of_specs != 0) {
        let text = format_args!("type {} with specifications or DONT_TRAP", head.r#type);
        return Err(refused(text));
    }
    Ok(Rule {
        kind,
        priority: head.priority,
        dont_trap,
        ethernet: None,
        ipv4: None,
        ports: None,
        tag: 0,
    })
}

fn size_of_specification(kind: u32) -> Option<usize> {
    Some(match kind {
        IBV_FLOW_SPEC_ETH => size_of::<ibv_flow_spec_eth>(),
        IBV_FLOW_SPEC_IPV4 => size_of::<ibv_flow_spec_ipv4>(),
        IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_UDP => size_of::<ibv_flow_spec_tcp_udp>(),
        IBV_FLOW_SPEC_ACTION_TAG => size_of::<ibv_flow_spec_action_tag>(),
        _ => return None,
    })
}

/// Adds one specification. They come in the order of their layers, each once.
///
/// # Safety
/// `at` points to a specification of this kind.
unsafe fn specification(rule: &mut Rule, kind: u32, at: *const u8) -> Result<(), Errno> {
    match kind {
        IBV_FLOW_SPEC_ETH => {
            if rule.ethernet.is_some() || rule.ipv4.is_some() || rule.ports.is_some() {
                return Err(refused(format_args!("Ethernet does not come first")));
            }
            // SAFETY: by this function's contract.
            let eth = unsafe { at.cast::<ibv_flow_spec_eth>().read_unaligned() };
            rule.ethernet = Some(EthernetMatch {
                destination: bytes(eth.val.dst_mac, eth.mask.dst_mac)?,
                source: bytes(eth.val.src_mac, eth.mask.src_mac)?,
                ether_type: word(eth.val.ether_type, eth.mask.ether_type)?,
                vlan: word(eth.val.vlan_tag, eth.mask.vlan_tag)?,
            });
        }
        IBV_FLOW_SPEC_IPV4 => {
            if rule.ipv4.is_some() || rule.ports.is_some() {
                return Err(refused(format_args!("IPv4 twice or after the ports")));
            }
            // SAFETY: by this function's contract.
            let ip = unsafe { at.cast::<ibv_flow_spec_ipv4>().read_unaligned() };
            rule.ipv4 = Some(Ipv4Match {
                source: long(ip.val.src_ip, ip.mask.src_ip)?,
                destination: long(ip.val.dst_ip, ip.mask.dst_ip)?,
            });
        }
        IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_UDP => {
            if rule.ipv4.is_none() || rule.ports.is_some() {
                return Err(refused(format_args!("ports without IPv4 before, or twice")));
            }
            // SAFETY: by this function's contract.
            let ports = unsafe { at.cast::<ibv_flow_spec_tcp_udp>().read_unaligned() };
            rule.ports = Some(PortMatch {
                transport: if kind == IBV_FLOW_SPEC_UDP {
                    Transport::Udp
                } else {
                    Transport::Tcp
                },
                destination: word(ports.val.dst_port, ports.mask.dst_port)?,
                source: word(ports.val.src_port, ports.mask.src_port)?,
            });
        }
        IBV_FLOW_SPEC_ACTION_TAG => {
            // SAFETY: by this function's contract.
            let tag = unsafe { at.cast::<ibv_flow_spec_action_tag>().read_unaligned() };
            if tag.tag_id > 0xff_ffff {
                return Err(refused(format_args!(
                    "tag {:#x} beyond 24 bits",
                    tag.tag_id
                )));
            }
            rule.tag = tag.tag_id;
        }
        IBV_FLOW_SPEC_IPV6 => return Err(Errno::OPNOTSUPP),
        other => return Err(refused(format_args!("specification {other:#x}"))),
    }
    Ok(())
}

/// A rule that says two things of the same header.
fn consistent(rule: &Rule) -> Result<(), Errno> {
    let (Some(eth), Some(_)) = (rule.ethernet, rule.ipv4) else {
        return Ok(());
    };
    let wanted = 0x0800 & eth.ether_type.mask;
    if eth.ether_type.value != wanted {
        let value = eth.ether_type.value;
        return Err(refused(format_args!("EtherType {value:#x} with IPv4")));
    }
    Ok(())
}

fn masked<T>(value: T, mask: T, outside: bool) -> Result<Masked<T>, Errno> {
    if outside {
        return Err(refused(format_args!("bits of a value outside its mask")));
    }
    Ok(Masked { value, mask })
}

fn bytes(value: [u8; 6], mask: [u8; 6]) -> Result<Masked<[u8; 6]>, Errno> {
    let outside = value.iter().zip(mask).any(|(v, m)| v & !m != 0);
    masked(value, mask, outside)
}

fn word(value: u16, mask: u16) -> Result<Masked<u16>, Errno> {
    let (value, mask) = (u16::from_be(value), u16::from_be(mask));
    masked(value, mask, value & !mask != 0)
}

fn long(value: u32, mask: u32) -> Result<Masked<u32>, Errno> {
    let (value, mask) = (u32::from_be(value), u32::from_be(mask));
    masked(value, mask, value & !mask != 0)
}
