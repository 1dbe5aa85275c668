//! This process's mount table, as `/proc/self/mountinfo` tells it. Read anew each time; keeps nothing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Where it is; free of links.
    pub point: PathBuf,
    /// The file system's device, `major:minor`, and what of it is mounted: the same for mounts of the same files.
    pub files: (String, PathBuf),
    /// Whether mounts below it are passed on to, and taken from, others of its group.
    pub shared: bool,
    /// The one label of SELinux that all of its files have, where it was mounted with one.
    pub label: Option<String>,
}

/// All mounts, in the order in which they were made.
///
/// # Errors
/// When `/proc` is not there.
pub fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The first mount that is at or below `path`, which is free of links.
///
/// # Errors
/// When `/proc` is not there.
pub fn first_within(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(read()?.into_iter().map(|mount| mount.point).find(|point| point.starts_with(path)))
}

/// The mount that `path`, which is free of links, is on: of the nearest points the last one mounted, which covers others.
///
/// # Errors
/// When `/proc` is not there.
pub fn holding(path: &Path) -> io::Result<Option<Mount>> {
    let above = read()?.into_iter().filter(|mount| path.starts_with(&mount.point));
    Ok(above.max_by_key(|mount| mount.point.components().count()))
}

/// A mount a line: identity, parent, device, root, point, options, then optional fields until a dash; kind, source and
/// options of the file system.
fn parse(table: &[u8]) -> Vec<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let files = (String::from_utf8_lossy(fields.next()?).into_owned(), unescape(fields.next()?));
        let point = unescape(fields.next()?);
        let shared = fields.skip(1).take_while(|field| *field != b"-").any(|field| field.starts_with(b"shared:"));
        let label = line.rsplit(|byte| *byte == b' ').next().and_then(label_in);
        Some(Mount { point, files, shared, label })
    });
    mounts.collect()
}

/// The label in a file system's options. The kernel quotes one that has a comma in it.
fn label_in(options: &[u8]) -> Option<String> {
    let options = std::str::from_utf8(options).ok()?;
    let from = options.strip_prefix("context=").or_else(|| options.split_once(",context=").map(|(_, rest)| rest))?;
    let label = match from.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => from.split(',').next(),
    };
    label.map(str::to_owned)
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let code = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unescaped() {
        for (field, path) in [("/a", "/a"), (r"/a\040b\134c", r"/a b\c"), (r"/a\04", r"/a\04"), (r"\777", r"\777")] {
            assert_eq!(unescape(field.as_bytes()), PathBuf::from(path), "{field}");
        }
    }

    #[test]
    fn points_and_sharing_are_read() {
        let table = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:5 /shared:9 /mnt/a\\040b rw master:3 shared:2 - tmpfs none rw\n\
                      31 22 0:6 / /private rw - tmpfs shared:x rw\n\nshort line\n";
        let mount = |device: &str, root: &str, point: &str, shared| Mount {
            point: PathBuf::from(point),
            files: (device.to_owned(), PathBuf::from(root)),
            shared,
            label: None,
        };
        let expected = [
            mount("254:0", "/", "/", true),
            mount("0:5", "/shared:9", "/mnt/a b", true),
            mount("0:6", "/", "/private", false),
        ];
        assert_eq!(parse(table), expected);
    }

    /// VOL-31.
    #[test]
    fn vol_31_the_label_of_a_mount_is_found_among_its_options() {
        let labels = [
            (r#"rw,context="a:b:c:s0:c1,c2",discard"#, Some("a:b:c:s0:c1,c2")),
            ("rw,context=a:b:c:s0,discard", Some("a:b:c:s0")),
            ("context=a:b:c:s0", Some("a:b:c:s0")),
            ("rw,fscontext=a:b:c:s0,defcontext=a:b:c:s1,rootcontext=a:b:c:s2", None),
            ("rw,seclabel", None),
        ];
        for (options, label) in labels {
            let table = format!("30 22 8:0 / /mnt rw - ext4 /dev/sda {options}\n");
            assert_eq!(parse(table.as_bytes())[0].label.as_deref(), label, "{options}");
        }
    }

    #[test]
    fn the_root_holds_everything_or_something_nearer_does() {
        let held = holding(Path::new("/proc/self")).expect("told").expect("some mount");
        assert_eq!(held.point, Path::new("/proc"));
        assert!(first_within(Path::new("/no/such/place")).expect("told").is_none());
    }
}
