//! The steering program: the one place that decides where a frame goes.
//!
//! It runs at an interface's ingress, after taps and before the kernel's stack, walks the table
//! of rules as [`crate::flow::walk`] does, puts a copy into the ring of each queue that is
//! meant and drops the frame or lets the kernel have it. As the decision is made once, a frame
//! can neither be lost nor doubled while rules change.
//!
//! Every process attaches its own instance to the same maps; the first in the chain serves
//! all of them and ends the chain. When its process dies the next one is first. A queue whose
//! process is gone has no socket in the map of the living any more: its rules count as absent.

use super::assembler::{
    Alu, Assembler, FP, Insn, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, Test, Width,
};
use super::layout::{BANKS, Bank, CLASSES, FRAME, QUEUES, RULES, Shared, Slot};
use crate::flow::Entry;
use std::mem::offset_of;

/// Descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// The shared value.
    pub(super) table: i32,
    /// Slot number to ring.
    pub(super) queues: i32,
    /// Slot number to a socket of the process.
    pub(super) alive: i32,
}

// Helpers, enum bpf_func_id.
const MAP_LOOKUP: i32 = 1;
const SKB_LOAD_BYTES: i32 = 26;
const SK_RELEASE: i32 = 86;
const RINGBUF_RESERVE: i32 = 131;
const RINGBUF_SUBMIT: i32 = 132;
const RINGBUF_DISCARD: i32 = 133;
const KTIME_GET_TAI_NS: i32 = 208;

// struct __sk_buff.
const SKB_LEN: i16 = 0;
const SKB_PKT_TYPE: i16 = 4;
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_VLAN_TCI: i16 = 24;
const SKB_GSO_SIZE: i16 = 176;

/// To this host, broadcast and multicast are 0 to 2; for others, and looped copies, above.
const PACKET_MULTICAST: i32 = 2;
const TCX_PASS: i32 = 0;
const TCX_DROP: i32 = 2;
const RINGBUF_NO_WAKEUP: i32 = 1;
const RINGBUF_FORCE_WAKEUP: i32 = 2;

// Stack.
const KEY: i16 = -32;
const IP: i16 = -56;
const PORTS: i16 = -64;
const COUNT: i16 = -72;
/// Place, group and queue of the last delivery; the place is even and no rule's at first.
const LAST_LEVEL: i16 = -80;
const LAST_GROUP: i16 = -88;
const LAST_QUEUE: i16 = -96;
const LEVEL: i16 = -104;
const GROUP: i16 = -112;
const QUEUE: i16 = -120;
const TAG: i16 = -128;
const RECORD: i16 = -136;
const NOWHERE: i32 = -2;

/// Offset of an entry's field from `bank + index * size of an entry`.
const fn entry(field: usize) -> i16 {
    (offset_of!(Bank, entries) + field) as i16
}

/// Writes the program for a set of maps.
pub(super) fn assemble(maps: Maps) -> Vec<Insn> {
    let mut a = Assembler::default();
    let pass = a.label();
    let lookup = a.label();
    a.copy(R6, R1);
    a.load(Width::W, R0, R6, SKB_PKT_TYPE);
    a.jump_if(Test::Gt, R0, PACKET_MULTICAST, pass);
    key(&mut a, lookup, pass);
    a.place(lookup);
    walk(&mut a, maps, pass);
    a.place(pass);
    a.set(R0, TCX_PASS);
    a.exit();
    a.finish()
}

/// `skb_load_bytes`; jumps when the frame is too short.
fn load_bytes(a: &mut Assembler, to: i16, len: i32, short: Label) {
    a.copy(R1, R6);
    a.stack(R3, i32::from(to));
    a.set(R4, len);
    a.call(SKB_LOAD_BYTES);
    a.jump_if(Test::Ne, R0, 0, short);
}

/// Fills the key (`crate::flow::Key`).
fn key(a: &mut Assembler, done: Label, pass: Label) {
    a.set(R0, 0);
    for word in 0..4 {
        a.store(Width::D, FP, KEY + word * 8, R0);
    }
    a.set(R2, 0);
    load_bytes(a, KEY, 14, pass);
    let untagged = a.label();
    a.load(Width::W, R0, R6, SKB_VLAN_PRESENT);
    a.jump_if(Test::Eq, R0, 0, untagged);
    a.load(Width::W, R1, R6, SKB_VLAN_TCI);
    a.be16(R1);
    a.store(Width::H, FP, KEY + 14, R1);
    a.set(R1, 8);
    a.store(Width::B, FP, KEY + 28, R1);
    a.place(untagged);

    a.load(Width::H, R0, FP, KEY + 12);
    a.be16(R0);
    a.jump_if(Test::Ne, R0, 0x0800, done);
    a.set(R2, 14);
    load_bytes(a, IP, 20, done);
    a.load(Width::B, R1, FP, IP);
    a.copy(R2, R1);
    a.alu(Alu::And, R2, 0xf0);
    a.jump_if(Test::Ne, R2, 0x40, done);
    a.alu(Alu::And, R1, 0x0f);
    a.jump_if(Test::Lt, R1, 5, done);
    a.alu(Alu::Lsh, R1, 2);
    a.copy(R7, R1);
    for word in 0..2 {
        a.load(Width::W, R0, FP, IP + 12 + word * 4);
        a.store(Width::W, FP, KEY + 16 + word * 4, R0);
    }
    class(a, 1);
    let (udp, ports) = (a.label(), a.label());
    a.load(Width::B, R0, FP, IP + 9);
    a.set(R8, 2);
    a.jump_if(Test::Eq, R0, 17, udp);
    a.set(R8, 4);
    a.jump_if(Test::Ne, R0, 6, done);
    a.place(udp);
    a.load(Width::H, R0, FP, IP + 6);
    a.be16(R0);
    a.jump_if(Test::Set, R0, 0x3fff, done);
    a.place(ports);
    a.copy(R2, R7);
    a.alu(Alu::Add, R2, 14);
    load_bytes(a, PORTS, 4, done);
    a.load(Width::W, R0, FP, PORTS);
    a.store(Width::W, FP, KEY + 24, R0);
    a.load(Width::B, R0, FP, KEY + 28);
    a.alu_reg(Alu::Or, R0, R8);
    a.store(Width::B, FP, KEY + 28, R0);
}

fn class(a: &mut Assembler, bit: i32) {
    a.load(Width::B, R0, FP, KEY + 28);
    a.alu(Alu::Or, R0, bit);
    a.store(Width::B, FP, KEY + 28, R0);
}

/// The walk over the bank in force; falls through to `pass` when the kernel gets the frame.
fn walk(a: &mut Assembler, maps: Maps, pass: Label) {
    let (again, matching, other, next, done) =
        (a.label(), a.label(), a.label(), a.label(), a.label());
    a.map_value(R7, maps.table);
    a.load(Width::W, R0, R7, offset_of!(Shared, active) as i16);
    a.alu(Alu::And, R0, BANKS as i32 - 1);
    a.alu(Alu::Mul, R0, size_of::<Bank>() as i32);
    a.copy(R8, R7);
    a.alu(Alu::Add, R8, offset_of!(Shared, banks) as i32);
    a.alu_reg(Alu::Add, R8, R0);
    a.load(Width::W, R0, R8, offset_of!(Bank, count) as i16);
    a.store(Width::D, FP, COUNT, R0);
    a.set(R0, NOWHERE);
    a.store(Width::D, FP, LAST_LEVEL, R0);
    a.store(Width::D, FP, LAST_GROUP, R0);
    a.store(Width::D, FP, LAST_QUEUE, R0);
    // A zero that the verifier does not know, lest it follow the index through every turn.
    a.load(Width::W, R9, R6, SKB_LEN);
    a.load(Width::W, R0, R6, SKB_LEN);
    a.alu_reg(Alu::Sub, R9, R0);

    a.place(again);
    a.may_go_on_or(done);
    a.jump_if(Test::Ge, R9, RULES as i32, done);
    a.load(Width::D, R0, FP, COUNT);
    a.jump_if_reg(Test::Ge, R9, R0, done);
    a.copy(R1, R9);
    a.alu(Alu::Mul, R1, size_of::<Entry>() as i32);
    a.alu_reg(Alu::Add, R1, R8);
    a.load(Width::W, R2, R1, entry(offset_of!(Entry, level)));
    a.load(Width::D, R3, FP, LAST_LEVEL);
    a.jump_if_reg(Test::Ne, R2, R3, other);
    // This place has applied: only its further destinations count.
    a.load(Width::W, R4, R1, entry(offset_of!(Entry, group)));
    a.load(Width::D, R5, FP, LAST_GROUP);
    a.jump_if_reg(Test::Ne, R4, R5, next);
    a.load(Width::W, R4, R1, entry(offset_of!(Entry, queue)));
    a.load(Width::D, R5, FP, LAST_QUEUE);
    a.jump_if_reg(Test::Eq, R4, R5, next);
    a.jump(matching);
    a.place(other);
    a.jump_if(Test::Set, R3, 1, done);
    a.place(matching);
    for word in 0..4 {
        let offset = word as usize * 8;
        a.load(Width::D, R2, R1, entry(32 + offset));
        a.load(Width::D, R3, FP, KEY + word * 8);
        a.alu_reg(Alu::And, R2, R3);
        a.load(Width::D, R3, R1, entry(offset));
        a.jump_if_reg(Test::Ne, R2, R3, next);
    }
    deliver(a, maps, next);
    a.place(next);
    a.alu(Alu::Add, R9, 1);
    a.jump(again);

    a.place(done);
    a.load(Width::D, R3, FP, LAST_LEVEL);
    a.alu(Alu::And, R3, 1);
    a.jump_if(Test::Eq, R3, 0, pass);
    a.set(R0, TCX_DROP);
    a.exit();
}

/// Copies the frame into the ring of the entry at R1.
fn deliver(a: &mut Assembler, maps: Maps, next: Label) {
    for (field, slot) in [
        (offset_of!(Entry, level), LEVEL),
        (offset_of!(Entry, group), GROUP),
        (offset_of!(Entry, queue), QUEUE),
        (offset_of!(Entry, tag), TAG),
    ] {
        a.load(Width::W, R0, R1, entry(field));
        a.store(Width::D, FP, slot, R0);
    }
    a.map(R1, maps.alive);
    a.stack(R2, i32::from(QUEUE));
    a.call(MAP_LOOKUP);
    a.jump_if(Test::Eq, R0, 0, next);
    a.copy(R1, R0);
    a.call(SK_RELEASE);
    a.map(R1, maps.queues);
    a.stack(R2, i32::from(QUEUE));
    a.call(MAP_LOOKUP);
    a.jump_if(Test::Eq, R0, 0, next);
    for (from, to) in [
        (LEVEL, LAST_LEVEL),
        (GROUP, LAST_GROUP),
        (QUEUE, LAST_QUEUE),
    ] {
        a.load(Width::D, R1, FP, from);
        a.store(Width::D, FP, to, R1);
    }

    let (lost, discard) = (a.label(), a.label());
    for (i, &class) in CLASSES.iter().enumerate() {
        let larger = a.label();
        a.load(Width::W, R1, R6, SKB_LEN);
        let too_large = if i + 1 < CLASSES.len() { larger } else { lost };
        a.jump_if(Test::Gt, R1, class as i32, too_large);
        a.copy(R1, R0);
        a.set(R2, (FRAME + class) as i32);
        a.set(R3, 0);
        a.call(RINGBUF_RESERVE);
        a.jump_if(Test::Eq, R0, 0, lost);
        fill(a, class, discard);
        wake_and_submit(a);
        a.jump(next);
        a.place(larger);
    }
    a.place(discard);
    a.load(Width::D, R1, FP, RECORD);
    a.set(R2, RINGBUF_NO_WAKEUP);
    a.call(RINGBUF_DISCARD);
    a.place(lost);
    slot(a);
    a.set(R1, 1);
    a.count(R2, offset_of!(Slot, lost) as i16, R1);
}

/// R2 = the queue's slot, less the offset of the slots' fields.
fn slot(a: &mut Assembler) {
    a.load(Width::W, R2, FP, QUEUE);
    a.alu(Alu::And, R2, QUEUES as i32 - 1);
    a.alu(Alu::Mul, R2, size_of::<Slot>() as i32);
    a.alu(Alu::Add, R2, offset_of!(Shared, slots) as i32);
    a.alu_reg(Alu::Add, R2, R7);
}

/// Writes header and frame into the record at R0.
fn fill(a: &mut Assembler, class: usize, discard: Label) {
    a.store(Width::D, FP, RECORD, R0);
    a.load(Width::W, R1, R6, SKB_LEN);
    a.store(Width::W, R0, 0, R1);
    a.load(Width::W, R1, R6, SKB_GSO_SIZE);
    a.store(Width::W, R0, 4, R1);
    a.load(Width::W, R1, FP, TAG);
    a.store(Width::W, R0, 8, R1);
    a.load(Width::W, R1, R6, SKB_VLAN_PRESENT);
    a.alu(Alu::Lsh, R1, 16);
    a.load(Width::W, R2, R6, SKB_VLAN_TCI);
    a.alu_reg(Alu::Or, R1, R2);
    a.store(Width::W, R0, 12, R1);
    a.call(KTIME_GET_TAI_NS);
    a.load(Width::D, R3, FP, RECORD);
    a.store(Width::D, R3, 16, R0);
    a.alu(Alu::Add, R3, FRAME as i32);
    a.copy(R1, R6);
    a.set(R2, 0);
    a.load(Width::W, R4, R6, SKB_LEN);
    a.jump_if(Test::Eq, R4, 0, discard);
    a.jump_if(Test::Gt, R4, class as i32, discard);
    a.call(SKB_LOAD_BYTES);
    a.jump_if(Test::Ne, R0, 0, discard);
}

/// Publishes the record, and wakes the sleeper if there is one. The exchange is also the
/// barrier between the reservation and the look at `armed`.
fn wake_and_submit(a: &mut Assembler) {
    let quiet = a.label();
    slot(a);
    a.set(R1, 0);
    a.exchange(R2, offset_of!(Slot, armed) as i16, R1);
    a.set(R2, RINGBUF_NO_WAKEUP);
    a.jump_if(Test::Eq, R1, 0, quiet);
    a.set(R2, RINGBUF_FORCE_WAKEUP);
    a.place(quiet);
    a.load(Width::D, R1, FP, RECORD);
    a.call(RINGBUF_SUBMIT);
}

#[cfg(test)]
mod tests;
