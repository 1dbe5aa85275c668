//! Takes out of facts whatever differs between two nodes or two moments: names, addresses, IDs, times.
//!
//! Known names are replaced as they are; IDs, times and random suffixes are known by their shape.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The keys whose values are sums over all of a container's fields, the random ones included.
const SUMS: [&str; 1] = ["io.kubernetes.container.hash"];
/// The keys of what a machine has, and of times: another one is slower.
const OF_MACHINE: [&str; 7] = ["cpuset.cpus", "cpuset.mems", "CapInh", "CapPrm", "CapEff", "CapBnd", "gone (seconds)"];
/// Volumes with tokens have this name, and five random letters.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The names of one node and one namespace.
pub struct Names(Vec<(String, &'static str)>);

impl Names {
    /// The names of a node, by the variables of `testenv.sh`.
    pub fn new(env: &BTreeMap<String, String>, node: &str, namespace: &str) -> Self {
        let dir = &env["DIR"];
        let mut pairs = vec![
            (format!("{dir}/kubelet"), "<root>"),
            (format!("{dir}/logs"), "<logs>"),
            (dir.clone(), "<dir>"),
            (namespace.to_owned(), "<ns>"),
            (node.to_owned(), "<node>"),
            (env["NODE_IP"].clone(), "<host-ip>"),
        ];
        if let Some(subnet) = env["POD_SUBNET"].strip_suffix("0/24") {
            pairs.push((subnet.to_owned(), "<ip>"));
        }
        pairs.push((env["CGROUP_ROOT"].clone(), "<cgroup>"));
        let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = resolver.lines().filter_map(|line| line.trim().strip_prefix("nameserver "));
        pairs.extend(servers.map(|server| (server.trim().to_owned(), "<nameserver>")));
        // A name that is part of another one comes later.
        pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Self(pairs)
    }

    /// The same facts without names of the node and of the moment.
    pub fn normalise(&self, facts: &Value) -> Value {
        match facts {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.normalise(item)).collect(),
            Value::Object(fields) => {
                let field = |(key, item): (&String, &Value)| {
                    let key = self.text(key);
                    let is_sum = SUMS.contains(&key.as_str()) && item.is_string();
                    let item = if is_sum { "<hash>".into() } else { self.normalise(item) };
                    (key, item)
                };
                fields.iter().map(field).collect::<Map<_, _>>().into()
            }
            Value::Number(number) if is_moment(&number.to_string()) => "<time>".into(),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, word) in &self.0 {
            text = match *word {
                "<ip>" => with_addresses(&text, name),
                word => text.replace(name.as_str(), word),
            };
        }
        without_shapes(&without_certificates(&text))
    }
}

/// The facts without what another machine has otherwise: its CPUs and memory, the capabilities that it grants, options of its
/// kernel, and the sums of images that were made with its compiler.
pub fn portable(facts: &Value) -> Value {
    let is_portable = |key: &str, value: &Value| {
        // Between these it follows from the size of the machine's memory.
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let is_score = key == "oom_score_adj" && number.is_some_and(|score| (3..1000).contains(&score));
        !is_score && !OF_MACHINE.contains(&key)
    };
    match facts {
        Value::Array(items) => items.iter().map(portable).collect(),
        Value::String(text) => portable_text(text).into(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, value)| is_portable(key, value));
            kept.map(|(key, value)| (key.clone(), portable(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn portable_text(text: &str) -> String {
    let text = text.replace(",noswap", "");
    let text = with_word(&text, "sha256:", 64, u8::is_ascii_hexdigit, "<sum>");
    // The sizes of file systems in memory without a limit, and what a node has in all.
    let text = with_word(&text, "size=", 8, u8::is_ascii_digit, "<memory>");
    with_word(&text, "capacity: ", 10, u8::is_ascii_digit, "<memory>")
}

/// A text with a word in the place of so many digits, or more, behind some letters.
fn with_word(text: &str, letters: &str, least: usize, is_digit: impl Fn(&u8) -> bool, word: &str) -> String {
    let mut parts = text.split(letters);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = run(part.as_bytes(), &is_digit);
        let kept = if digits >= least { format!("{word}{}", &part[digits..]) } else { part.to_owned() };
        found.push_str(letters);
        found.push_str(&kept);
    }
    found
}

/// A text with a word in the place of each certificate.
fn without_certificates(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut parts = text.split(BEGIN);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found.push_str("<certificate>");
        found.push_str(part.split_once(END).map_or("", |(_, rest)| rest));
    }
    found
}

fn is_moment(number: &str) -> bool {
    number.len() == 19 && number.starts_with('1')
}

/// The addresses of a subnet of 256, by its first three numbers.
fn with_addresses(text: &str, subnet: &str) -> String {
    let mut parts = text.split(subnet);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found.push_str("<ip>");
        found.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    found
}

/// A text whose IDs, times and random suffixes are replaced by words.
pub fn without_shapes(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let last = found.chars().last();
        match shape(rest, last, &found) {
            Some((length, word)) => {
                found.push_str(word);
                rest = &rest[length..];
            }
            None => {
                found.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    found
}

/// A shape at the beginning of a text: its length, and the word in its place.
fn shape(text: &str, last: Option<char>, before: &str) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes();
    if fits(bytes, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
        return Some((36, "<uid>"));
    }
    if fits(bytes, "dddd-dd-ddTdd:dd:dd") {
        return Some((19 + time_end(&bytes[19..]), "<time>"));
    }
    if fits(bytes, "..dddd_dd_dd_dd_dd_dd.") {
        return Some((22 + run(&bytes[22..], u8::is_ascii_digit), "..<time>"));
    }
    if let Some(rest) = text.strip_prefix(TOKEN_VOLUME)
        && run(rest.as_bytes(), u8::is_ascii_alphanumeric) == 5
    {
        return Some((TOKEN_VOLUME.len() + 5, "<token-volume>"));
    }
    // A static pod has a sum in the place of a UID, which follows the word `pod` in the names of cgroups.
    let is_within_word = last.is_some_and(|last| last.is_ascii_alphanumeric());
    if run(bytes, |byte| byte.is_ascii_hexdigit()) == 32 && (!is_within_word || before.ends_with("/pod")) {
        return Some((32, "<uid>"));
    }
    if is_within_word {
        return None;
    }
    if let Some(length) = service_address(text) {
        return Some((length, "<service-ip>"));
    }
    // The termination log of one run of a container.
    if fits(bytes, "hhhhhhhh") && bytes.len() == 8 && before.rsplit('/').nth(2) == Some("containers") {
        return Some((8, "<random>"));
    }
    if text.starts_with("eyJ") {
        let length = run(bytes, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        return (length > 100).then_some((length, "<token>"));
    }
    if run(bytes, |byte| byte.is_ascii_hexdigit()) == 64 && !before.ends_with("sha256:") {
        return Some((64, "<id>"));
    }
    let digits = run(bytes, u8::is_ascii_digit);
    // Of a resource of the node, by pods of other scenarios too.
    if digits > 0 && before.ends_with(", used: ") {
        return Some((digits, "<used>"));
    }
    if digits > 3 && bytes[digits..].starts_with(b"->") {
        return Some((digits, "<port>"));
    }
    if digits == 5 && before.ends_with("ip>:") && bytes[0] >= b'3' {
        return Some((5, "<port>"));
    }
    // Nanoseconds since 1970; other numbers of this length are limits that nothing reaches.
    if digits == 19 && bytes[0] == b'1' {
        return Some((19, "<time>"));
    }
    duration(bytes, digits).map(|length| (length, "<duration>"))
}

/// An address that the API server chose for a Service: of the range that `scripts/cluster.sh` names.
fn service_address(text: &str) -> Option<usize> {
    const RANGE: &str = "10.96.";
    let rest = text.strip_prefix(RANGE)?;
    let third = run(rest.as_bytes(), u8::is_ascii_digit);
    let fourth = run(rest[third..].strip_prefix('.')?.as_bytes(), u8::is_ascii_digit);
    // The first addresses are fixed, and say something.
    (third > 0 && fourth > 0 && !rest.starts_with("0.")).then_some(RANGE.len() + third + 1 + fourth)
}

/// A measured duration such as `1.234s`: whole ones are settings, and stay.
fn duration(bytes: &[u8], digits: usize) -> Option<usize> {
    if digits == 0 || bytes.get(digits) != Some(&b'.') {
        return None;
    }
    let fraction = run(&bytes[digits + 1..], u8::is_ascii_digit);
    let end = digits + 1 + fraction;
    let unit = run(&bytes[end..], |byte| byte.is_ascii_lowercase());
    let is_unit = matches!(&bytes[end..end + unit], b"s" | b"ms");
    (fraction > 0 && is_unit).then_some(end + unit)
}

/// The fraction and the zone of a time.
fn time_end(bytes: &[u8]) -> usize {
    let mut length = 0;
    if bytes.first() == Some(&b'.') {
        length = 1 + run(&bytes[1..], u8::is_ascii_digit);
    }
    match bytes.get(length) {
        Some(b'Z') => length + 1,
        Some(b'+' | b'-') if fits(&bytes[length + 1..], "dd:dd") => length + 6,
        _ => length,
    }
}

fn run(bytes: &[u8], is_part: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_part(byte)).count()
}

/// Whether bytes begin by a pattern: `h` a hexadecimal digit, `d` a digit, anything else itself.
fn fits(bytes: &[u8], pattern: &str) -> bool {
    let fit = |(byte, wanted): (&u8, u8)| match wanted {
        b'h' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => *byte == other,
    };
    bytes.len() >= pattern.len() && bytes.iter().zip(pattern.bytes()).all(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_replaced() {
        let id = "0123456789abcdef".repeat(4);
        for (text, expected) in [
            ("pod6a6e8cbc-4b5c-4f0e-a3a5-0d4f3b1c2d3e/x".to_owned(), "pod<uid>/x"),
            (format!("/pod{}/x", "0a".repeat(16)), "/pod<uid>/x"),
            (format!("containerd://{id}"), "containerd://<id>"),
            (format!("image sha256:{id}"), &format!("image sha256:{id}")),
            ("at 2026-11-30T02:22:33.123456789Z.".to_owned(), "at <time>."),
            ("2026-11-30T02:22:33+01:00".to_owned(), "<time>"),
            ("..2026_11_30_02_22_33.12345/a".to_owned(), "..<time>/a"),
            ("kube-api-access-x7k2p".to_owned(), "<token-volume>"),
            ("pulled in 1.25s, waits 10s".to_owned(), "pulled in <duration>, waits 10s"),
            ("1764469353123456789".to_owned(), "<time>"),
            ("9223372036854771712".to_owned(), "9223372036854771712"),
            ("<root>/pods/x/containers/main/0badcafe".to_owned(), "<root>/pods/x/containers/main/<random>"),
            ("10.96.0.1".to_owned(), "10.96.0.1"),
            ("tcp://10.96.181.61:80".to_owned(), "tcp://<service-ip>:80"),
            ("read tcp 127.0.0.1:39142->127.0.0.1:80".to_owned(), "read tcp 127.0.0.1:<port>->127.0.0.1:80"),
        ] {
            assert_eq!(without_shapes(&text), expected);
        }
    }

    #[test]
    fn certificates_are_replaced() {
        let one = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n";
        assert_eq!(without_certificates(&format!("a\n{one}{one}b")), "a\n<certificate>\n<certificate>\nb");
    }

    #[test]
    fn a_record_has_nothing_of_its_machine() {
        let facts = serde_json::json!({ "a": [{ "cpuset.cpus": "0-1", "oom_score_adj": "998", "x": 1 }], "oom_score_adj": -997 });
        assert_eq!(portable(&facts), serde_json::json!({ "a": [{ "x": 1 }], "oom_score_adj": -997 }));
        for (text, expected) in [
            ("rw,size=24632892k,noswap", "rw,size=<memory>k"),
            ("rw,size=1024k", "rw,size=1024k"),
            ("cpu, capacity: 2000; memory, capacity: 25224081408", "cpu, capacity: 2000; memory, capacity: <memory>"),
            (&format!("sha256:{}@", "0a".repeat(32)), "sha256:<sum>@"),
        ] {
            assert_eq!(portable_text(text), expected);
        }
    }

    #[test]
    fn names_of_the_node_are_replaced() {
        let pairs = [
            ("DIR", "/tmp/1/o"),
            ("NODE_IP", "192.168.0.7"),
            ("POD_SUBNET", "10.213.3.0/24"),
            ("CGROUP_ROOT", "/podwright3"),
        ];
        let env = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let names = Names::new(&env, "twin-ours", "twin-o-a");
        let facts = serde_json::json!({ "/tmp/1/o/kubelet/pods": ["twin-ours", "10.213.3.17:80", 5], "io.kubernetes.container.hash": "ab" });
        let expected =
            serde_json::json!({ "<root>/pods": ["<node>", "<ip>:80", 5], "io.kubernetes.container.hash": "<hash>" });
        assert_eq!(names.normalise(&facts), expected);
    }
}
