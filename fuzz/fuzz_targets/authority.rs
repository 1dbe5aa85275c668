//! Any bytes from a client of a gRPC socket, cut anywhere: nothing panics, how the bytes are cut does not show, and what
//! comes out is not much more than what went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::serving::any_authority::Frames;

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = (usize::from(input.0).max(1), input.1);
    let (mut whole, mut at_once) = (Frames::default(), vec![]);
    let ended = whole.take(bytes, &mut at_once);
    let (mut parts, mut in_parts) = (Frames::default(), vec![]);
    let mut ended_in_parts = Ok(());
    for part in bytes.chunks(cut) {
        ended_in_parts = parts.take(part, &mut in_parts);
        if ended_in_parts.is_err() {
            break;
        }
    }
    assert_eq!((ended, at_once.len()), (ended_in_parts, in_parts.len()));
    assert_eq!(at_once, in_parts);
    assert!(at_once.len() <= bytes.len() * 11 + 16, "a byte becomes eleven at most");
});
