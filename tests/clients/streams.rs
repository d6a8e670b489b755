//! ffmpeg: a transport stream by RTP to a group; what is received is what was sent.

use crate::rig::{BOTH, End, Scratch, carried};
use std::time::Duration;
use tests::netns::Netns;
use tests::preload::{Mode, Program};
use tests::require;
use tests::topology::Lab;

const GROUP: &str = "rtp://239.78.0.1:5004";
/// Frames of the film.
const FRAMES: usize = 75;

fn ffmpeg(args: &[&str]) -> Program {
    let quiet = ["-nostdin", "-hide_banner", "-loglevel", "error"];
    Program::new("ffmpeg", &[&quiet[..], args].concat())
}

/// The film, and a checksum of each of its frames.
fn film(scratch: &Scratch) -> (String, Vec<String>) {
    let path = scratch.path().join("film.ts").display().to_string();
    let frames = FRAMES.to_string();
    let source = "testsrc=size=320x240:rate=25";
    let args = [
        "-f",
        "lavfi",
        "-i",
        source,
        "-frames:v",
        &frames,
        "-c:v",
        "mpeg2video",
    ];
    let rest = [
        "-b:v", "2M", "-g", "5", "-bf", "0", "-f", "mpegts", "-y", &path,
    ];
    let _ = ffmpeg(&[&args[..], &rest].concat()).run().success("ffmpeg");
    let args = [
        "-i", &path, "-map", "0:v", "-c", "copy", "-f", "framemd5", "-",
    ];
    let sums = ffmpeg(&args).run().success("ffmpeg").stdout;
    (path, checksums(&sums))
}

/// The sixth column of `-f framemd5`.
fn checksums(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let sums = lines.filter_map(|l| l.split(',').nth(5));
    sums.map(|sum| sum.trim().to_owned()).collect()
}

/// Until the host is a member of the group.
fn wait_for_member(host: &Netns) {
    for _ in 0..1000 {
        let members = host.ip("maddr show dev veth0").unwrap_or_default();
        if members.contains("239.78.0.1") {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody joins the group");
}

#[test]
fn ffmpeg_multicast() {
    if !require::program("ffmpeg") {
        return;
    }
    let scratch = Scratch::new("ffmpeg");
    let (film, sums) = film(&scratch);
    assert_eq!(sums.len(), FRAMES);
    for mode in BOTH {
        let Some(lab) = Lab::open() else { return };
        let out = scratch.path().join("sums").display().to_string();
        let quiet = ["-nostdin", "-hide_banner", "-loglevel", "error"];
        let args = [
            "-i",
            GROUP,
            "-map",
            "0:v",
            "-c",
            "copy",
            "-flush_packets",
            "1",
        ];
        let rest = ["-f", "framemd5", "-y", &out];
        let receiver = End::new(
            &lab.near,
            mode,
            "ffmpeg",
            &[&quiet[..], &args, &rest].concat(),
        );
        let receiver = receiver.serve(5004);
        wait_for_member(&lab.near);
        let args = ["-re", "-i", &film, "-c", "copy", "-f", "rtp_mpegts", GROUP];
        let sender = End::new(&lab.far, mode, "ffmpeg", &[&quiet[..], &args].concat());
        let (sent, sending) = sender.run();
        let _ = sent.success("ffmpeg, sender");
        std::thread::sleep(Duration::from_millis(300));
        receiver.interrupt();
        let (received, receiving) = receiver.wait();
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        let got = checksums(&text);
        // Its probing takes some from the beginning, its end the last; between none is missing.
        assert!(
            got.len() > FRAMES * 2 / 3 && sums.windows(got.len()).any(|part| part == got),
            "{mode:?}: {} frames {got:?} of {sums:?}\n{}",
            got.len(),
            received.stderr
        );
        if mode != Mode::Native {
            carried("ffmpeg, sender", &sending, 0, 100);
            carried("ffmpeg, receiver", &receiving, 100, 0);
        }
    }
}
