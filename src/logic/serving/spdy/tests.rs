//! Tests of the frames: each kind in its bytes, and whatever arrives in whatever pieces.

use proptest::prelude::*;

use super::*;

fn read_all(bytes: &[u8]) -> Result<Vec<Event>, SpdyError> {
    let (mut reader, mut buffer, mut events) = (Reader::default(), BytesMut::from(bytes), vec![]);
    while let Some(event) = reader.next(&mut buffer)? {
        events.push(event);
    }
    Ok(events)
}

#[test]
fn frames_have_their_bytes() {
    assert_eq!(data_head(3, 5, false), [0, 0, 0, 3, 0, 0, 0, 5]);
    assert_eq!(data_head(3, 0, true), [0, 0, 0, 3, 1, 0, 0, 0]);
    assert_eq!(&ping(1)[..], [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]);
    assert_eq!(&reset(5)[..], [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 5]);
    assert_eq!(&go_away(0)[..], [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut writer = Writer::default();
    let first = writer.open(1, &[("a", "bc")]);
    let stored = [0, 15, 0, 0xf0, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 2, b'b', b'c', 0, 0, 0, 0xff, 0xff];
    assert_eq!(first[..18], [0x80, 3, 0, 1, 0, 0, 0, 41, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(first[18..24], COMPRESSED_HEAD);
    assert_eq!(first[24..], stored);
    let second = writer.open(3, &[("a", "bc")]);
    assert_eq!(second[18..], stored, "the compressed stream begins once");
}

#[test]
fn what_is_written_is_read() {
    let mut writer = Writer::default();
    let opened = writer.open(1, &[("streamtype", "stdin")]);
    let replied = writer.reply(2);
    let bytes = [
        &opened[..],
        &replied,
        &data_head(1, 3, false),
        b"abc",
        &data_head(1, 0, true),
        &reset(7),
        &ping(2),
        &go_away(1),
        &[0x80, 3, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1], // a window update
    ]
    .concat();
    let headers = Bytes::copy_from_slice(&opened[18..]);
    assert_eq!(
        read_all(&bytes).expect("well made"),
        [
            Event::Opened { stream: 1, headers },
            Event::Replied { stream: 2, ends: false },
            Event::Data { stream: 1, bytes: Bytes::from_static(b"abc"), ends: false },
            Event::Data { stream: 1, bytes: Bytes::new(), ends: true },
            Event::Reset { stream: 7, status: CANCEL },
            Event::Ping(2),
            Event::GoAway,
            Event::Other,
        ]
    );
}

#[test]
fn what_is_no_spdy_is_refused() {
    assert_eq!(read_all(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Err(SpdyError::Version(2)));
    assert_eq!(read_all(&[0x80, 3, 0, 1, 0, 1, 0, 1]), Err(SpdyError::TooLarge(65537)));
    assert_eq!(read_all(&[0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1]), Err(SpdyError::TooShort(RST_STREAM)));
}

/// Data of all frames by stream, and everything else in order.
fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut out: Vec<Event> = vec![];
    for event in events {
        match (out.last_mut(), event) {
            (
                Some(Event::Data { stream, bytes, ends: ends @ false }),
                Event::Data { stream: same, bytes: more, ends: last },
            ) if *stream == same => {
                *bytes = Bytes::from([&bytes[..], &more[..]].concat());
                *ends = last;
            }
            (_, event) => out.push(event),
        }
    }
    out
}

proptest! {
    /// SEC-59: nothing that arrives makes the reader panic, hold bytes back, or give more than arrived.
    #[test]
    fn no_bytes_are_too_odd(bytes: Vec<u8>) {
        let (mut reader, mut buffer, mut data) = (Reader::default(), BytesMut::from(&bytes[..]), 0);
        while let Ok(Some(event)) = reader.next(&mut buffer) {
            if let Event::Data { bytes, .. } = event {
                data += bytes.len();
            }
        }
        prop_assert!(data + buffer.len() <= bytes.len());
    }

    #[test]
    fn pieces_make_no_difference(
        frames in proptest::collection::vec((1_u32..6, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..12),
        cuts in proptest::collection::vec(1_usize..9, 1..60),
    ) {
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|(stream, data, ends)| [&data_head(*stream, data.len(), *ends)[..], data, &ping(*stream)].concat())
            .collect();
        let whole = read_all(&bytes).expect("well made");
        let (mut reader, mut buffer, mut events) = (Reader::default(), BytesMut::new(), vec![]);
        let (mut rest, mut cut) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*cut.next().expect("endless")));
            buffer.extend_from_slice(now);
            rest = later;
            while let Some(event) = reader.next(&mut buffer).expect("well made") {
                events.push(event);
            }
        }
        prop_assert!(!reader.is_inside() && buffer.is_empty());
        prop_assert_eq!(joined(events), joined(whole));
    }
}
