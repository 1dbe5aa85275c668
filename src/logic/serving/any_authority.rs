//! Clients of Unix sockets whose requests name no host: their `:authority` is replaced before the server reads it.
//!
//! Owned by `platform::network::grpc_authority`, which runs each client's bytes through it.
//!
//! The HTTP/2 library refuses a request whose `:authority` is no host name. Yet grpc-go before 1.56, and grpc-java, C++ and
//! Python to this day, send the socket's path, plain or with `%2F`, and nobody reads it. So the frames of a client run
//! through here. In each header block that value becomes `localhost`, or as much of it as has room.
//!
//! A header block is not decoded for that, only walked through. An entry that a client puts into the connection's table
//! is put there with the other value, at the same index. An entry must not become larger by it, because the server would
//! forget older entries before the client does: therefore the new value is never longer than the old one. (An empty value
//! becomes one letter. Clients send that one by the static table, where no entry is made.)

/// The client's first bytes.
const PREFACE: usize = 24;
/// Of each frame.
const HEAD: usize = 9;
/// The largest frame that a server takes by default; what is written here keeps to it.
const FRAME_MAX: usize = 16_384;
/// The largest header block, as it comes. Names and values of real clients take a few hundred bytes.
const BLOCK_MAX: usize = 64 * 1024;
/// The most frames that one header block comes in; without a bound, empty ones could come for ever.
const PARTS_MAX: usize = 16;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The index of `:authority`, without a value, in the table that all connections have.
const AUTHORITY: usize = 1;
const NAME: &[u8] = b":authority";
const HOST: &[u8] = b"localhost";

/// The client's bytes are no HTTP/2, or too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// See the text.
    #[error("a header block is cut off, or has a number that is too large")]
    Block,
    /// See the text.
    #[error("a frame has no room for its own padding")]
    Frame,
    /// See the text.
    #[error("a header block is too large")]
    TooLarge,
    /// See the text.
    #[error("a header block is not continued")]
    Interrupted,
}

/// The frames of one client, as far as they were read.
#[derive(Debug, Default)]
pub struct Frames {
    /// Of the preface.
    greeted: usize,
    head: Vec<u8>,
    /// Left of a frame that passes as it is.
    passing: usize,
    /// A frame with a part of a header block: all of it is gathered.
    gathering: Option<(Head, Vec<u8>)>,
    /// Parts of a block that goes on.
    block: Option<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

#[derive(Debug)]
struct Block {
    stream: [u8; 4],
    ends_stream: bool,
    bytes: Vec<u8>,
    /// Frames so far.
    parts: usize,
}

impl Frames {
    /// Takes what came, and adds to `out` what the server is to read.
    ///
    /// # Errors
    /// The client does not speak HTTP/2, or sends too much at once: its connection has to end.
    pub fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let greeting = bytes.len().min(PREFACE - self.greeted);
        out.extend_from_slice(&bytes[..greeting]);
        self.greeted += greeting;
        bytes = &bytes[greeting..];
        while !bytes.is_empty() {
            if self.passing > 0 {
                let count = self.passing.min(bytes.len());
                out.extend_from_slice(&bytes[..count]);
                self.passing -= count;
                bytes = &bytes[count..];
            } else if let Some((head, payload)) = &mut self.gathering {
                let count = (head.length - payload.len()).min(bytes.len());
                payload.extend_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                self.gathered(out)?;
            } else {
                let count = (HEAD - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                if self.head.len() == HEAD {
                    self.begin(out)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Ok([a, b, c, kind, flags, s, t, r, e]) = <[u8; HEAD]>::try_from(&*self.head) else { return Ok(()) };
        let stream = [s, t, r, e];
        let head = Head { length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c), kind, flags, stream };
        let continues = self.block.as_ref().map(|block| block.stream);
        if continues.is_some_and(|of| kind != CONTINUATION || of != stream) {
            return Err(Malformed::Interrupted);
        }
        if kind == HEADERS || (kind == CONTINUATION && continues.is_some()) {
            if head.length + self.block.as_ref().map_or(0, |block| block.bytes.len()) > BLOCK_MAX {
                return Err(Malformed::TooLarge);
            }
            self.gathering = Some((head, vec![]));
            self.head.clear();
            return self.gathered(out);
        }
        out.append(&mut self.head);
        self.passing = head.length;
        Ok(())
    }

    /// Once a frame with a part of a header block is all there.
    fn gathered(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some((head, payload)) = self.gathering.take_if(|(head, payload)| payload.len() == head.length) else {
            return Ok(());
        };
        let part = if head.kind == HEADERS { fragment(&head, &payload)? } else { &payload };
        let new = Block { stream: head.stream, ends_stream: head.flags & END_STREAM != 0, bytes: vec![], parts: 0 };
        let mut block = self.block.take().unwrap_or(new);
        block.bytes.extend_from_slice(part);
        block.parts += 1;
        if block.parts > PARTS_MAX {
            return Err(Malformed::TooLarge);
        }
        if head.flags & END_HEADERS == 0 {
            self.block = Some(block);
            return Ok(());
        }
        write_block(&block, &with_host(&block.bytes)?, out);
        Ok(())
    }
}

/// The part of a header block in a frame: without padding, and without the priority, which servers do not heed any more.
fn fragment<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let mut rest = payload;
    let mut padding = 0;
    if head.flags & PADDED != 0 {
        let (length, after) = rest.split_first().ok_or(Malformed::Frame)?;
        (padding, rest) = (usize::from(*length), after);
    }
    if head.flags & PRIORITY != 0 {
        rest = rest.get(5..).ok_or(Malformed::Frame)?;
    }
    let end = rest.len().checked_sub(padding).ok_or(Malformed::Frame)?;
    Ok(&rest[..end])
}

fn write_block(block: &Block, bytes: &[u8], out: &mut Vec<u8>) {
    let mut parts = bytes.chunks(FRAME_MAX).peekable();
    let (mut kind, mut flags) = (HEADERS, if block.ends_stream { END_STREAM } else { 0 });
    loop {
        let part = parts.next().unwrap_or_default();
        if parts.peek().is_none() {
            flags |= END_HEADERS;
        }
        let [.., a, b, c] = part.len().to_be_bytes();
        out.extend_from_slice(&[a, b, c, kind, flags]);
        out.extend_from_slice(&block.stream);
        out.extend_from_slice(part);
        if flags & END_HEADERS != 0 {
            return;
        }
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// The header block with another authority.
fn with_host(block: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut rest = Reader(block);
    let mut out = Vec::with_capacity(block.len() + HOST.len());
    while let Some(first) = rest.0.first().copied() {
        let begins = rest.0;
        // The four kinds of entries, by the first bits, and how many bits their number has.
        let (bits, is_literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let number = rest.number(bits)?;
        if !is_literal {
            if first >= 0x80 && number == AUTHORITY {
                out.push(1); // The name by its index, not for the table.
                write_text(HOST, &mut out);
            } else {
                out.extend_from_slice(&begins[..begins.len() - rest.0.len()]);
            }
            continue;
        }
        let is_authority = match number {
            0 => rest.text()?.0 == NAME,
            number => number == AUTHORITY,
        };
        let (value_at, (value, is_packed)) = (begins.len() - rest.0.len(), rest.text()?);
        if is_authority {
            out.extend_from_slice(&begins[..value_at]);
            write_text(&HOST[..room(value.len(), is_packed)], &mut out);
        } else {
            out.extend_from_slice(&begins[..begins.len() - rest.0.len()]);
        }
    }
    Ok(out)
}

/// How much of the host's name has room where this value was. One character of a packed value has 30 bits at most.
fn room(length: usize, is_packed: bool) -> usize {
    let characters = if is_packed { (length * 8).saturating_sub(7).div_ceil(30) } else { length };
    characters.clamp(1, HOST.len())
}

/// Short enough for a length of one byte.
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(u8::try_from(text.len()).expect("invariant: the host's name is short"));
    out.extend_from_slice(text);
}

/// The rest of a header block (RFC 7541, section 5).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed::Block)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number that begins in the lowest `bits` of the next byte.
    fn number(&mut self, bits: u32) -> Result<usize, Malformed> {
        let max = (1_usize << bits) - 1;
        let mut number = usize::from(self.byte()?) & max;
        if number < max {
            return Ok(number);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number += (usize::from(byte) & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Block)
    }

    /// A text as it is written, and whether it is packed.
    fn text(&mut self) -> Result<(&'a [u8], bool), Malformed> {
        let is_packed = self.0.first().is_some_and(|first| first & 0x80 != 0);
        let length = self.number(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Malformed::Block)?;
        self.0 = rest;
        Ok((text, is_packed))
    }
}

#[cfg(test)]
mod tests;
