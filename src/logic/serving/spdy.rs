//! Frames of SPDY/3.1, as far as the client of a runtime's stream server needs them: streams are opened, data goes both
//! ways, streams end.
//!
//! Pure. Headers are sent in stored blocks of the compressed stream, which every decoder takes, and never read: the
//! server of a remote command says nothing in them. There is no flow control: the library behind all runtimes' stream
//! servers has none, it ignores window updates and waits for none.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The most bytes of a control frame; what runtimes send is far smaller.
pub const CONTROL_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of data in a frame that is sent.
pub const DATA_BYTES_MAX: usize = 0xff_ffff;
/// Bytes before a frame's payload.
pub const HEAD_BYTES: usize = 8;

const VERSION: u16 = 3;
const FIN: u8 = 1;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// The status of a stream that its sender needs no more.
const CANCEL: u32 = 5;
/// How the compressed stream of headers begins: deflate, a window of 32 KiB, and the checksum of SPDY/3's dictionary.
const COMPRESSED_HEAD: [u8; 6] = [0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2];
/// An empty stored block: all that was sent before is to be handed on.
const FLUSHED: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// A frame of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of a stream's data, as much as was there; the last of a frame says whether the stream ends.
    Data {
        /// Which stream.
        stream: u32,
        /// The piece.
        bytes: Bytes,
        /// Nothing more comes.
        ends: bool,
    },
    /// A stream is opened; its headers as they are on the wire.
    Opened {
        /// Which stream.
        stream: u32,
        /// The compressed block.
        headers: Bytes,
    },
    /// A stream that we opened is taken.
    Replied {
        /// Which stream.
        stream: u32,
        /// Nothing comes on it.
        ends: bool,
    },
    /// A stream is over, both ways.
    Reset {
        /// Which stream.
        stream: u32,
        /// Why.
        status: u32,
    },
    /// Wants the same number back, if it is even, which is the server's.
    Ping(u32),
    /// No more streams are taken.
    GoAway,
    /// Something that we have no use for.
    Other,
}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// Another version, or another protocol.
    #[error("a frame of version {0} of SPDY, 3 is understood")]
    Version(u16),
    /// A control frame larger than [`CONTROL_BYTES_MAX`].
    #[error("a control frame of {0} bytes, {CONTROL_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// A frame that is too short for its kind.
    #[error("a frame of kind {0} is too short")]
    TooShort(u16),
}

/// Takes frames apart as their bytes arrive. Keeps the data frame that is under way, none of its bytes.
#[derive(Debug, Default)]
pub struct Reader {
    /// Stream, bytes that are still to come, and whether the stream ends with them.
    data: Option<(u32, usize, bool)>,
}

impl Reader {
    /// The next event in `buffer`, whose bytes are taken from it; `None` when more bytes are needed.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Event>, SpdyError> {
        if let Some((stream, left, fin)) = self.data {
            if buffer.is_empty() {
                return Ok(None);
            }
            return Ok(Some(self.piece(buffer, stream, left, fin)));
        }
        if buffer.len() < HEAD_BYTES {
            return Ok(None);
        }
        let (first, second) = (u32_at(buffer, 0), u32_at(buffer, 4));
        let (flags, length) = ((second >> 24) as u8, (second & 0xff_ffff) as usize);
        if first & 0x8000_0000 == 0 {
            buffer.advance(HEAD_BYTES);
            return Ok(Some(self.piece(buffer, first, length, flags & FIN != 0)));
        }
        let (version, kind) = ((first >> 16) as u16 & 0x7fff, first as u16);
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        if length > CONTROL_BYTES_MAX {
            return Err(SpdyError::TooLarge(length));
        }
        if buffer.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        buffer.advance(HEAD_BYTES);
        control(kind, flags, buffer.split_to(length).freeze()).map(Some)
    }

    /// Whether a frame has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.data.is_some()
    }

    fn piece(&mut self, buffer: &mut BytesMut, stream: u32, left: usize, fin: bool) -> Event {
        let bytes = buffer.split_to(left.min(buffer.len())).freeze();
        let left = left - bytes.len();
        self.data = (left > 0).then_some((stream, left, fin));
        Event::Data { stream, bytes, ends: fin && left == 0 }
    }
}

fn control(kind: u16, flags: u8, payload: Bytes) -> Result<Event, SpdyError> {
    let needed = match kind {
        SYN_STREAM => 10,
        SYN_REPLY | PING => 4,
        RST_STREAM => 8,
        _ => 0,
    };
    if payload.len() < needed {
        return Err(SpdyError::TooShort(kind));
    }
    let id = |at| u32_at(&payload, at) & 0x7fff_ffff;
    Ok(match kind {
        SYN_STREAM => Event::Opened { stream: id(0), headers: payload.slice(10..) },
        SYN_REPLY => Event::Replied { stream: id(0), ends: flags & FIN != 0 },
        RST_STREAM => Event::Reset { stream: id(0), status: u32_at(&payload, 4) },
        PING => Event::Ping(u32_at(&payload, 0)),
        GOAWAY => Event::GoAway,
        _ => Event::Other,
    })
}

/// Four bytes as a number; the caller has looked that they are there.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Makes frames. Keeps whether the compressed stream of headers has begun.
#[derive(Debug, Default)]
pub struct Writer {
    begun: bool,
}

impl Writer {
    /// Opens a stream. Names of headers are in lower case; all together they have less than 60 KiB.
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Bytes {
        let block = self.headers(headers);
        let mut frame = head(SYN_STREAM, 10 + block.len());
        frame.put_u32(stream);
        frame.put_bytes(0, 6); // no parent, highest priority, no slot
        frame.put_slice(&block);
        frame.freeze()
    }

    /// Takes a stream that the other side opened, without headers of our own.
    pub fn reply(&mut self, stream: u32) -> Bytes {
        let block = self.headers(&[]);
        let mut frame = head(SYN_REPLY, 4 + block.len());
        frame.put_u32(stream);
        frame.put_slice(&block);
        frame.freeze()
    }

    fn headers(&mut self, headers: &[(&str, &str)]) -> BytesMut {
        let mut plain = BytesMut::new();
        plain.put_u32(headers.len() as u32);
        for (name, value) in headers {
            for text in [name, value] {
                plain.put_u32(text.len() as u32);
                plain.put_slice(text.as_bytes());
            }
        }
        let length = u16::try_from(plain.len()).expect("invariant: headers are short");
        let mut block = BytesMut::with_capacity(plain.len() + 16);
        if !std::mem::replace(&mut self.begun, true) {
            block.put_slice(&COMPRESSED_HEAD);
        }
        block.put_u8(0);
        block.put_u16_le(length);
        block.put_u16_le(!length);
        block.put_slice(&plain);
        block.put_slice(&FLUSHED);
        block
    }
}

/// The head before `length` bytes of a stream's data, [`DATA_BYTES_MAX`] at most.
pub fn data_head(stream: u32, length: usize, ends: bool) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&stream.to_be_bytes());
    head[4..].copy_from_slice(&((length & DATA_BYTES_MAX) as u32).to_be_bytes());
    head[4] = u8::from(ends) * FIN;
    head
}

/// Ends a stream both ways.
pub fn reset(stream: u32) -> Bytes {
    let mut frame = head(RST_STREAM, 8);
    frame.put_u32(stream);
    frame.put_u32(CANCEL);
    frame.freeze()
}

/// Asks for a sign of life, or gives it.
pub fn ping(id: u32) -> Bytes {
    let mut frame = head(PING, 4);
    frame.put_u32(id);
    frame.freeze()
}

/// Takes no more streams; the last that was taken is `stream`.
pub fn go_away(stream: u32) -> Bytes {
    let mut frame = head(GOAWAY, 8);
    frame.put_u32(stream);
    frame.put_u32(0);
    frame.freeze()
}

fn head(kind: u16, length: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + length);
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(length as u32);
    frame
}

#[cfg(test)]
mod tests;
