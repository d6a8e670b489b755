//! The internet checksum (RFC 1071) as a card computes it on sends with `IBV_SEND_IP_CSUM` and
//! verifies it on receives.

/// Ones' complement sum of 16-bit words in network order, not folded.
fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(4);
    let mut total = 0u64;
    for chunk in &mut chunks {
        total += u64::from(u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    let mut last = [0u8; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// Where the parts of an IPv4 frame are.
struct Ipv4 {
    header: core::ops::Range<usize>,
    /// Transport header and data, of a datagram in one piece.
    transport: Option<(core::ops::Range<usize>, u8)>,
}

const UDP: u8 = 17;
const TCP: u8 = 6;

/// Finds them; none if the frame is no whole IPv4 packet.
fn parse(frame: &[u8]) -> Option<Ipv4> {
    let mut at = 12;
    let mut kind = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
    if kind == 0x8100 {
        at += 4;
        kind = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
    }
    let packet = frame.get(at + 2..)?;
    let start = at + 2;
    let first = *packet.first()?;
    if kind != 0x0800 || first >> 4 != 4 {
        return None;
    }
    let header = usize::from(first & 15) * 4;
    let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    if header < 20 || total < header || packet.len() < total {
        return None;
    }
    // More fragments, or an offset: the transport checksum covers more than is here.
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
    let protocol = packet[9];
    let least = match protocol {
        UDP => 8,
        TCP => 20,
        _ => usize::MAX,
    };
    let whole = !fragment && total - header >= least;
    Some(Ipv4 {
        header: start..start + header,
        transport: whole.then_some((start + header..start + total, protocol)),
    })
}

/// Sum of the pseudo-header (RFC 768) and the transport bytes.
fn transport_sum(frame: &[u8], ipv4: &Ipv4, range: &core::ops::Range<usize>, protocol: u8) -> u64 {
    let addresses = ipv4.header.start + 12..ipv4.header.start + 20;
    sum(&frame[addresses]) + u64::from(protocol) + range.len() as u64 + sum(&frame[range.clone()])
}

/// Fills in the IPv4 header's checksum and that of a whole UDP or TCP packet.
pub(crate) fn fill(frame: &mut [u8]) {
    let Some(ipv4) = parse(frame) else { return };
    let at = ipv4.header.start + 10;
    frame[at..at + 2].fill(0);
    let value = !fold(sum(&frame[ipv4.header.clone()]));
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let Some((range, protocol)) = ipv4.transport.clone() else {
        return;
    };
    let at = range.start + if protocol == UDP { 6 } else { 16 };
    frame[at..at + 2].fill(0);
    let mut value = !fold(transport_sum(frame, &ipv4, &range, protocol));
    if protocol == UDP && value == 0 {
        // Zero says that there is none.
        value = 0xffff;
    }
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The verdict of a card: an IPv4 packet with UDP or TCP in one piece, both checksums right.
/// With `unfinished` the sender's kernel left them to its card, and only the form counts.
pub(crate) fn verified(frame: &[u8], unfinished: bool) -> bool {
    let Some(ipv4) = parse(frame) else {
        return false;
    };
    let Some((range, protocol)) = ipv4.transport.clone() else {
        return false;
    };
    if unfinished {
        return true;
    }
    if fold(sum(&frame[ipv4.header.clone()])) != 0xffff {
        return false;
    }
    let absent = protocol == UDP && frame[range.start + 6..range.start + 8] == [0, 0];
    absent || fold(transport_sum(frame, &ipv4, &range, protocol)) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.1:4660 to 10.0.0.2:22136, "hello"; checksums computed by hand.
    fn hello() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 33, 0, 1, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x12, 0x34, 0x56, 0x78, 0, 13, 0, 0]);
        frame.extend(*b"hello");
        frame
    }

    #[test]
    fn both_checksums_are_filled_in() {
        let mut frame = hello();
        fill(&mut frame);
        // 4500+0021+0001+0000+4011+0a00+0001+0a00+0002 = 9936, complement 66c9.
        assert_eq!(frame[24..26], [0x66, 0xc9]);
        // Pseudo-header 0a00+0001+0a00+0002+0011+000d, header 1234+5678+000d,
        // data 6865+6c6c+6f00 = 1c0b5, folded c0b6, complement 3f49.
        let total: u32 = [
            0x0a00, 1, 0x0a00, 2, 0x11, 0xd, 0x1234, 0x5678, 0xd, 0x6865, 0x6c6c, 0x6f00,
        ]
        .iter()
        .sum();
        let folded = (total & 0xffff) + (total >> 16);
        let expected = !(folded as u16);
        assert_eq!(frame[40..42], expected.to_be_bytes());
        assert!(verified(&frame, false));
    }

    #[test]
    fn one_wrong_bit_is_seen() {
        let mut frame = hello();
        fill(&mut frame);
        for at in 14..frame.len() {
            let mut wrong = frame.clone();
            wrong[at] ^= 4;
            assert!(!verified(&wrong, false), "byte {at}");
        }
        assert!(!verified(&hello(), false), "no header checksum");
        assert!(verified(&hello(), true), "left to the card");
    }

    #[test]
    fn a_fragment_has_no_verdict_and_keeps_its_data() {
        let mut frame = hello();
        frame[20] = 0x20;
        let data = frame[34..].to_vec();
        fill(&mut frame);
        assert_eq!(frame[34..], data[..]);
        assert!(!verified(&frame, false));
    }

    #[test]
    fn other_frames_are_left_alone() {
        for kind in [[8, 6], [0x86, 0xdd]] {
            let mut frame = hello();
            frame[12..14].copy_from_slice(&kind);
            let before = frame.clone();
            fill(&mut frame);
            assert_eq!(frame, before);
            assert!(!verified(&frame, true));
        }
        for length in 0..34 {
            fill(&mut hello()[..length]);
            assert!(!verified(&hello()[..length], false));
        }
    }
}
