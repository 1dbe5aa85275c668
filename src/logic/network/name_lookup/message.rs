//! Messages of DNS (RFC 1035), as far as a lookup of addresses needs them: one question, and the addresses of its answer.
//!
//! Answers are hostile: every length is checked, nothing is followed, and records are taken up to a bound.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The largest answer over UDP that the question allows (EDNS, RFC 6891).
pub const UDP_BYTES_MAX: u16 = 1232;
const HEAD_BYTES: usize = 12;
const CLASS_INTERNET: u16 = 1;
const TYPE_OPTIONS: u16 = 41;

/// The family of addresses that a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Records `A`.
    V4,
    /// Records `AAAA`.
    V6,
}

impl Family {
    fn number(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 28,
        }
    }
}

/// A question for the addresses of one full name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    id: u16,
    family: Family,
    /// The name, type and class, as both messages have them.
    bytes: Vec<u8>,
}

/// The meaning of a server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The message does not answer this question; a true answer may follow.
    Foreign,
    /// The answer did not fit; it is to be asked for over TCP.
    Cut,
    /// The addresses; none where the name has none of this family.
    Addresses(Vec<IpAddr>),
    /// The name does not exist.
    NoSuchName,
    /// The server has no answer, which another one may have.
    Failed,
}

impl Question {
    /// A question for `name`, which passed [`super::LookupSettings::candidates`].
    pub fn new(id: u16, name: &str, family: Family) -> Self {
        let mut bytes = Vec::with_capacity(name.len() + 6);
        for part in name.trim_end_matches('.').split('.') {
            bytes.push(u8::try_from(part.len()).expect("invariant: a part of a name is short"));
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&family.number().to_be_bytes());
        bytes.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
        Self { id, family, bytes }
    }

    /// The message: recursion is wanted, and answers of [`UDP_BYTES_MAX`] fit.
    pub fn message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEAD_BYTES + self.bytes.len() + 11);
        for field in [self.id, 0x0100, 1, 0, 0, 1] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message.extend_from_slice(&self.bytes);
        message.push(0);
        for field in [TYPE_OPTIONS, UDP_BYTES_MAX, 0, 0, 0] {
            message.extend_from_slice(&field.to_be_bytes());
        }
        message
    }

    /// Reads a message that came back, with `max` addresses at most.
    pub fn reply(&self, message: &[u8], max: usize) -> Reply {
        let Some([id, flags, questions, answers, ..]) = head(message) else { return Reply::Foreign };
        let question = message.get(HEAD_BYTES..HEAD_BYTES + self.bytes.len());
        let is_ours = question.is_some_and(|question| question.eq_ignore_ascii_case(&self.bytes));
        if id != self.id || flags & 0x8000 == 0 || questions != 1 || !is_ours {
            return Reply::Foreign;
        }
        // Neither the answer's own word nor a server that would look further: it is a referral, which is of no use.
        let is_referral = answers == 0 && flags & 0x0480 == 0;
        match flags & 0x000f {
            _ if flags & 0x0200 != 0 => Reply::Cut,
            0 if is_referral => Reply::Failed,
            0 => match self.addresses(&message[HEAD_BYTES + self.bytes.len()..], answers, max) {
                Some(found) => Reply::Addresses(found),
                None => Reply::Failed,
            },
            3 => Reply::NoSuchName,
            _ => Reply::Failed,
        }
    }

    fn addresses(&self, mut records: &[u8], count: u16, max: usize) -> Option<Vec<IpAddr>> {
        let mut found = vec![];
        for _ in 0..count {
            records = after_name(records)?;
            let (head, rest) = records.split_at_checked(10)?;
            let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[8], head[9]])))?;
            records = rest;
            let is_wanted = head[..2] == self.family.number().to_be_bytes() && head[2..4] == [0, 1];
            let ip = match self.family {
                _ if !is_wanted || found.len() >= max => continue,
                Family::V4 => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into(),
                Family::V6 => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into(),
            };
            found.push(ip);
        }
        Some(found)
    }
}

fn head(message: &[u8]) -> Option<[u16; 6]> {
    let head = message.get(..HEAD_BYTES)?;
    let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    Some([field(0), field(2), field(4), field(6), field(8), field(10)])
}

/// The bytes after a name: its parts up to the empty one, or up to a pointer, which ends a name.
fn after_name(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, rest) = bytes.split_first()?;
        match length & 0xc0 {
            0xc0 => return rest.get(1..),
            0 if *length == 0 => return Some(rest),
            0 => bytes = rest.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
}
