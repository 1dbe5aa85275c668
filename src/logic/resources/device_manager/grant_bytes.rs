//! A plugin's answer as bytes of the published protocol (`ContainerAllocateResponse` of v1beta1), as the checkpoint has it.
//!
//! Pure. The wire types of the protocol belong to adapters; this is the one message that a file has.

use std::collections::BTreeMap;

use super::devices::{DeviceGrant, DeviceMount, DeviceNode};

/// Bytes that are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer of a device plugin")]
pub struct NoGrant;

/// A field of length-delimited content.
const BYTES: u64 = 2;

/// The message.
pub(super) fn print(grant: &DeviceGrant) -> Vec<u8> {
    let mut out = vec![];
    let pair = |(key, value): (&String, &String)| {
        let mut out = vec![];
        text(&mut out, 1, key);
        text(&mut out, 2, value);
        out
    };
    grant.envs.iter().for_each(|entry| field(&mut out, 1, &pair(entry)));
    for mount in &grant.mounts {
        let mut own = vec![];
        text(&mut own, 1, &mount.container_path);
        text(&mut own, 2, &mount.host_path);
        if mount.read_only {
            own.extend([3 << 3, 1]);
        }
        field(&mut out, 2, &own);
    }
    for device in &grant.devices {
        let mut own = vec![];
        text(&mut own, 1, &device.container_path);
        text(&mut own, 2, &device.host_path);
        text(&mut own, 3, &device.permissions);
        field(&mut out, 3, &own);
    }
    grant.annotations.iter().for_each(|entry| field(&mut out, 4, &pair(entry)));
    for name in &grant.cdi_devices {
        let mut own = vec![];
        text(&mut own, 1, name);
        field(&mut out, 5, &own);
    }
    out
}

fn text(out: &mut Vec<u8>, number: u64, text: &str) {
    if !text.is_empty() {
        field(out, number, text.as_bytes());
    }
}

fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | BYTES);
    varint(out, u64::try_from(bytes.len()).expect("invariant: a length fits"));
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Reads the message. Fields that are not known are skipped, as protocols want it.
///
/// # Errors
/// [`NoGrant`].
pub(super) fn parse(bytes: &[u8]) -> Result<DeviceGrant, NoGrant> {
    let mut grant = DeviceGrant::default();
    for (number, content) in fields(bytes)? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => grant.envs.extend([pair(bytes)?]),
            (2, Content::Bytes(bytes)) => {
                let own = own(bytes)?;
                let (container_path, host_path) = (own.text(1), own.text(2));
                grant.mounts.push(DeviceMount { container_path, host_path, read_only: own.flag(3) });
            }
            (3, Content::Bytes(bytes)) => {
                let own = own(bytes)?;
                let (container_path, host_path, permissions) = (own.text(1), own.text(2), own.text(3));
                grant.devices.push(DeviceNode { container_path, host_path, permissions });
            }
            (4, Content::Bytes(bytes)) => grant.annotations.extend([pair(bytes)?]),
            (5, Content::Bytes(bytes)) => grant.cdi_devices.push(own(bytes)?.text(1)),
            _ => {}
        }
    }
    Ok(grant)
}

enum Content<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// The texts and numbers of a message within the message; the last of a field counts.
#[derive(Default)]
struct Own {
    texts: BTreeMap<u64, String>,
    numbers: BTreeMap<u64, u64>,
}

impl Own {
    fn text(&self, number: u64) -> String {
        self.texts.get(&number).cloned().unwrap_or_default()
    }

    fn flag(&self, number: u64) -> bool {
        self.numbers.get(&number).is_some_and(|number| *number != 0)
    }
}

fn own(bytes: &[u8]) -> Result<Own, NoGrant> {
    let mut own = Own::default();
    for (number, content) in fields(bytes)? {
        match content {
            Content::Bytes(bytes) => {
                let text = String::from_utf8(bytes.to_vec()).map_err(|_| NoGrant)?;
                own.texts.insert(number, text);
            }
            Content::Number(value) => drop(own.numbers.insert(number, value)),
        }
    }
    Ok(own)
}

fn pair(bytes: &[u8]) -> Result<(String, String), NoGrant> {
    let own = own(bytes)?;
    Ok((own.text(1), own.text(2)))
}

fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Content<'_>)>, NoGrant> {
    let mut fields = vec![];
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let number = tag >> 3;
        let content = match tag & 7 {
            0 => Content::Number(read_varint(&mut bytes)?),
            BYTES => {
                let length = usize::try_from(read_varint(&mut bytes)?).map_err(|_| NoGrant)?;
                Content::Bytes(cut(&mut bytes, length)?)
            }
            1 => skipped(&mut bytes, 8)?,
            5 => skipped(&mut bytes, 4)?,
            _ => return Err(NoGrant),
        };
        fields.push((number, content));
    }
    Ok(fields)
}

fn skipped<'a>(bytes: &mut &'a [u8], length: usize) -> Result<Content<'a>, NoGrant> {
    cut(bytes, length)?;
    Ok(Content::Number(0))
}

fn cut<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], NoGrant> {
    let (first, rest) = bytes.split_at_checked(length).ok_or(NoGrant)?;
    *bytes = rest;
    Ok(first)
}

fn read_varint(bytes: &mut &[u8]) -> Result<u64, NoGrant> {
    let mut number = 0_u64;
    for place in 0..10_u32 {
        let (first, rest) = bytes.split_first().ok_or(NoGrant)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(NoGrant)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grants() -> impl Strategy<Value = DeviceGrant> {
        let map = || prop::collection::btree_map("[a-z]{0,3}", ".{0,200}", 0..4);
        let mounts = prop::collection::vec((".{0,9}", ".{0,9}", any::<bool>()), 0..3);
        let devices = prop::collection::vec((".{0,9}", ".{0,9}", "[rwm]{0,3}"), 0..3);
        let mount = |(container_path, host_path, read_only)| DeviceMount { container_path, host_path, read_only };
        let device = |(container_path, host_path, permissions)| DeviceNode { container_path, host_path, permissions };
        (map(), mounts, devices, map(), prop::collection::vec(".{0,9}", 0..3)).prop_map(move |all| DeviceGrant {
            envs: all.0,
            mounts: all.1.into_iter().map(mount).collect(),
            devices: all.2.into_iter().map(device).collect(),
            annotations: all.3,
            cdi_devices: all.4,
        })
    }

    proptest! {
        #[test]
        fn an_answer_is_read_as_it_was_written(grant in grants()) {
            prop_assert_eq!(parse(&print(&grant)), Ok(grant));
        }

        #[test]
        fn bytes_of_any_kind_are_no_danger(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    /// The bytes of other writers of the protocol; a field of later versions is skipped.
    #[test]
    fn an_answer_has_the_published_form() {
        let bytes =
            b"\x0a\x0a\x0a\x01A\x12\x05b=c,d\x12\x08\x0a\x02/c\x12\x00\x18\x01\x1a\x0b\x0a\x01d\x12\x02/h\x1a\x02rw\
                      \x2a\x05\x0a\x03v/x\x32\x02zz";
        let grant = parse(bytes).expect("an answer");
        assert_eq!(grant.envs, [("A".to_owned(), "b=c,d".to_owned())].into());
        assert_eq!((grant.mounts[0].container_path.as_str(), grant.mounts[0].read_only), ("/c", true));
        assert_eq!(grant.devices[0].permissions, "rw");
        assert_eq!(grant.cdi_devices, ["v/x"]);
        let env = print(&DeviceGrant { envs: grant.envs, ..DeviceGrant::default() });
        assert_eq!(env, &bytes[..12]);
        assert_eq!(parse(&bytes[..5]), Err(NoGrant));
    }
}
