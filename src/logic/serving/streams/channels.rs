//! Messages of the WebSocket protocol `v5.channel.k8s.io`: the first byte names a channel, 255 closes one.

use serde::Deserialize;

/// Standard input, to the command.
pub const STDIN: u8 = 0;
/// Standard output, from it.
pub const STDOUT: u8 = 1;
/// Standard error, from it.
pub const STDERR: u8 = 2;
/// How it ended.
pub const ERROR: u8 = 3;
/// Sizes of the terminal, to it.
pub const RESIZE: u8 = 4;
/// Channels there are.
const CHANNELS: u8 = 5;
/// The first byte of a message that closes the channel that its second byte names.
pub const CLOSE: u8 = 255;

/// The meaning of a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Nothing: an empty message, or one for a channel that is not the client's.
    Nothing,
    /// The bytes after the first are for the command.
    Stdin,
    /// The bytes after the first are sizes of the terminal.
    Resize,
    /// The client sends no more input.
    StdinEnds,
    /// Upstream ends such a connection.
    Broken(&'static str),
}

/// Reads a client's message.
pub fn from_client(message: &[u8]) -> FromClient {
    match *message {
        [] => FromClient::Nothing,
        [CLOSE, STDIN] => FromClient::StdinEnds,
        [CLOSE, channel] if channel < CHANNELS => FromClient::Nothing,
        [CLOSE, _] => FromClient::Broken("a channel is closed that does not exist"),
        [CLOSE, ..] => FromClient::Broken("a single channel byte should follow the stream close signal"),
        [STDIN, ..] => FromClient::Stdin,
        [RESIZE, ..] => FromClient::Resize,
        _ => FromClient::Nothing,
    }
}

/// A terminal's size, with Go's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct Size {
    #[serde(rename = "Width", alias = "width")]
    width: u16,
    #[serde(rename = "Height", alias = "height")]
    height: u16,
}

/// The sizes in a message, as the runtime gets them, a line each; what is none ends the list.
pub fn sizes(message: &[u8]) -> String {
    let sizes = serde_json::Deserializer::from_slice(message).into_iter::<Size>();
    let lines =
        sizes.map_while(Result::ok).map(|size| format!("{{\"Width\":{},\"Height\":{}}}\n", size.width, size.height));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_upstream_reads_them() {
        for (message, expected) in [
            (&b""[..], FromClient::Nothing),
            (b"\0hello", FromClient::Stdin),
            (b"\0", FromClient::Stdin),
            (b"\x01out", FromClient::Nothing),
            (b"\x04{}", FromClient::Resize),
            (b"\x09?", FromClient::Nothing),
            (b"\xff\0", FromClient::StdinEnds),
            (b"\xff\x04", FromClient::Nothing),
        ] {
            assert_eq!(from_client(message), expected, "{message:?}");
        }
        for message in [&b"\xff"[..], b"\xff\x05", b"\xff\0\0"] {
            assert!(matches!(from_client(message), FromClient::Broken(_)), "{message:?}");
        }
    }

    #[test]
    fn sizes_are_written_anew() {
        assert_eq!(sizes(br#"{"Width":80,"Height":24}"#), "{\"Width\":80,\"Height\":24}\n");
        assert_eq!(
            sizes(br#"{"width":1,"Height":2}{"Height":3}"#),
            "{\"Width\":1,\"Height\":2}\n{\"Width\":0,\"Height\":3}\n"
        );
        assert_eq!(sizes(br#"{"Width":70000}"#), "");
        assert_eq!(sizes(b"no size"), "");
    }

    proptest::proptest! {
        /// SEC-59.
        #[test]
        fn no_message_is_too_odd(message: Vec<u8>) {
            let read = from_client(&message);
            proptest::prop_assert!(!message.is_empty() || read == FromClient::Nothing);
            proptest::prop_assert!(sizes(&message).len() <= 16 * message.len() + 32);
        }
    }
}
