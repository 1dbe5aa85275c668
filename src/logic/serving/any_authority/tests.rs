//! Tests of header blocks and frames by their bytes. `server::rpc` has those with a real server behind them.

use proptest::prelude::*;

use super::*;

const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn text(value: &[u8]) -> Vec<u8> {
    [&[u8::try_from(value.len()).expect("short")], value].concat()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, 1], payload].concat()
}

fn through(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (mut frames, mut out) = (Frames::default(), vec![]);
    frames.take(bytes, &mut out)?;
    Ok(out)
}

#[test]
fn every_form_of_an_authority_is_replaced_and_all_else_stays() {
    let path = b"/var/lib/kubelet/pod-resources/kubelet.sock".as_slice();
    // The name by its index: for the table, not for the table, never for any table. Then the name as text.
    for (form, name) in [(0x41, &b""[..]), (0x01, b""), (0x11, b""), (0x40, &text(NAME)), (0x00, &text(NAME))] {
        let around = |value: &[u8]| [&[0x83, 0x3f, 0xe1, 0x1f, form], name, &text(value), &[0x86, 0xbe]].concat();
        assert_eq!(with_host(&around(path)), Ok(around(HOST)), "form {form:x}");
        assert_eq!(with_host(&around(b"/a")), Ok(around(b"lo")), "not longer than it was");
        assert_eq!(with_host(&around(b"")), Ok(around(b"l")));
    }
    assert_eq!(
        with_host(&[0x83, 0x81, 0x86]),
        Ok([&[0x83, 0x01], &text(HOST)[..], &[0x86]].concat()),
        "a static entry"
    );
    let other =
        [&[0x04][..], &text(b"/v1.PodResourcesLister/List"), &[0x40], &text(b"te"), &text(b"trailers")].concat();
    assert_eq!(with_host(&other), Ok(other));
}

#[test]
fn a_packed_value_makes_room_for_no_more_than_it_surely_had() {
    assert_eq!([0, 1, 5, 38, 100].map(|length| room(length, true)), [1, 1, 2, 9, 9]);
    assert_eq!([0, 1, 5, 38].map(|length| room(length, false)), [1, 1, 5, 9]);
}

#[test]
fn a_block_in_parts_is_one_block_for_the_server() {
    let block = [&[0x83, 0x41][..], &text(b"%2Fa%2Fb.sock"), &[0x86]].concat();
    let expected =
        [HELLO, &frame(HEADERS, END_HEADERS | END_STREAM, &with_host(&block).expect("well-formed"))].concat();
    let padded = [&[2][..], &[0; 5], &block[..4], &[0, 0]].concat();
    let parts = [
        HELLO,
        &frame(HEADERS, END_STREAM | PADDED | PRIORITY, &padded),
        &frame(CONTINUATION, 0, &block[4..9]),
        &frame(CONTINUATION, END_HEADERS, &block[9..]),
    ];
    assert_eq!(through(&parts.concat()), Ok(expected));
}

#[test]
fn a_long_block_is_written_in_frames_that_a_server_takes() {
    let long = [&[0x00, 0x01, b'x', 0x7f, 0xa1, 0x9b, 0x01][..], &[b'y'; 20_000]].concat();
    assert!(with_host(&long).as_ref() == Ok(&long), "a length of several bytes");
    let out = through(&[HELLO, &frame(HEADERS, END_HEADERS, &long)].concat()).expect("well-formed");
    let first = frame(HEADERS, 0, &long[..FRAME_MAX]);
    assert_eq!(out, [HELLO, &first, &frame(CONTINUATION, END_HEADERS, &long[FRAME_MAX..])].concat());
}

#[test]
fn what_is_no_http_or_too_much_ends_the_connection() {
    let cases: [(&[u8], Malformed); 7] = [
        (&frame(HEADERS, END_HEADERS, &[0x41, 0x09, b'x']), Malformed::Block),
        (&frame(HEADERS, END_HEADERS, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Malformed::Block),
        (&frame(HEADERS, END_HEADERS | PADDED, &[9, 0x83]), Malformed::Frame),
        (&frame(HEADERS, END_HEADERS | PRIORITY, &[0; 4]), Malformed::Frame),
        (&frame(HEADERS, END_HEADERS, &[0x83; BLOCK_MAX + 1]), Malformed::TooLarge),
        (&[frame(HEADERS, 0, &[0x83]), frame(0, 0, b"data")].concat(), Malformed::Interrupted),
        (&[frame(HEADERS, 0, &[]), frame(CONTINUATION, 0, &[]).repeat(PARTS_MAX)].concat(), Malformed::TooLarge),
    ];
    for (bytes, error) in cases {
        assert_eq!(through(&[HELLO, bytes].concat()), Err(error));
    }
}

proptest! {
    /// However the bytes come in, and whatever they are: the same bytes come out, and nothing panics.
    #[test]
    fn the_cuts_between_reads_do_not_matter(
        frames in proptest::collection::vec((0_u8..12, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
        cuts in proptest::collection::vec(1_usize..20, 1..60),
    ) {
        let mut bytes = HELLO.to_vec();
        bytes.extend(frames.iter().flat_map(|(kind, flags, payload)| frame(*kind, *flags, payload)));
        let whole = through(&bytes);
        let (mut reader, mut out, mut rest, mut ended) = (Frames::default(), vec![], &bytes[..], Ok(()));
        for cut in cuts.iter().cycle() {
            if rest.is_empty() || ended.is_err() {
                break;
            }
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            rest = later;
            ended = reader.take(now, &mut out);
        }
        prop_assert_eq!(ended.map(|()| out), whole);
    }
}
