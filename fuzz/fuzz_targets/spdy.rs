//! Any bytes from a runtime's stream server, cut anywhere: nothing panics, no more is kept than a control frame, and how
//! the bytes are cut does not show (SEC-59).

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::serving::spdy::{CONTROL_BYTES_MAX, Event, HEAD_BYTES, Reader, SpdyError};

/// The events that came, pieces of a frame joined, and how it ended.
fn events(input: &[u8], cut: usize) -> (Vec<Event>, Option<SpdyError>) {
    let (mut reader, mut buffer, mut events) = (Reader::default(), BytesMut::new(), vec![]);
    for part in input.chunks(cut) {
        buffer.extend_from_slice(part);
        loop {
            let goes_on = reader.is_inside();
            match reader.next(&mut buffer) {
                Ok(Some(event)) => take(&mut events, event, goes_on),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
        assert!(buffer.len() < HEAD_BYTES + CONTROL_BYTES_MAX, "what is kept grows");
    }
    (events, None)
}

fn take(events: &mut Vec<Event>, event: Event, goes_on: bool) {
    match (events.last_mut(), event) {
        (Some(Event::Data { stream, bytes, ends }), Event::Data { stream: same, bytes: more, ends: last }) if goes_on => {
            assert_eq!(*stream, same);
            *bytes = [&bytes[..], &more[..]].concat().into();
            *ends = last;
        }
        (_, event) => events.push(event),
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let (cut, whole) = (events(bytes, usize::from(cut) + 1), events(bytes, bytes.len().max(1)));
    assert_eq!(cut, whole, "the cuts show");
});
