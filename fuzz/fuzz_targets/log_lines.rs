//! Any bytes as a container's log, in blocks of any size, with little room: nothing panics, nothing is kept that grows,
//! and how the bytes are cut does not show (SEC-59).

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::logs::container_log::printer::{PrintOptions, Printer, Rest};

/// Room for what was not taken.
const ROOM: usize = 4096;

fn shown(input: &[u8], options: PrintOptions, block: usize) -> Option<Vec<u8>> {
    let mut printer = Printer::new(options);
    let (mut out, mut kept) = (vec![], Vec::new());
    for piece in input.chunks(block) {
        kept.extend_from_slice(piece);
        let rest = if kept.len() >= ROOM { Rest::NoRoom } else { Rest::MayGrow };
        let taken = printer.print(&kept, rest, &mut out).ok()?;
        kept.drain(..taken);
        assert!(kept.len() < ROOM + 2 * block, "what is kept grows");
    }
    printer.print(&kept, Rest::End, &mut out).ok()?;
    Some(out)
}

fuzz_target!(|input: (u8, bool, Option<u16>, Option<u8>, &[u8])| {
    let (block, timestamps, bytes, lines, log) = input;
    let options = PrintOptions {
        timestamps,
        bytes_max: bytes.map(|bytes| u64::from(bytes) + 1),
        lines_max: lines.map(u64::from),
        ..PrintOptions::default()
    };
    let pieces = shown(log, options, usize::from(block) + 1);
    if let Some(limit) = options.bytes_max {
        assert!(pieces.as_ref().is_none_or(|out| out.len() as u64 <= limit));
    }
    if log.len() < ROOM {
        assert_eq!(pieces, shown(log, options, ROOM), "blocks show");
    }
});
