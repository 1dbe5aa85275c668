//! The values of flags: from one occurrence's text to JSON, in pflag's ways and with Go's error texts.
//!
//! Pure; keeps nothing. A flag that may be repeated gets what its earlier occurrences on the same command line made.

use crate::config::duration::GoDuration;
use crate::config::labels;
use crate::config::quantity_text::QuantityText;
use crate::config::version;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// How the text of a flag is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// `true` or `false`, or nothing at all for `true`.
    Bool,
    /// A number of so many bits, in Go's notations.
    Integer(u32),
    /// `1m30s`
    Duration,
    /// Any text.
    Text,
    /// Texts between commas, in CSV; repeated ones add up.
    TextList,
    /// Pairs between commas, key and value parted by the text; repeated ones add up.
    Map(char),
    /// One pair; repeated ones add up.
    SinglePair,
    /// `Gate=true` pairs; repeated ones add up.
    BoolMap,
    /// `name:value` pairs; values of one name add up.
    HeaderMap,
    /// `key=value` pairs; the value may be left out.
    Labels,
    /// An IP address; empty for no change.
    Address,
    /// `0:memory=1Gi,hugepages-1M=2Gi;1:memory=2Gi`
    ReservedMemory,
    /// `key=value:Effect` between commas.
    Taints,
    /// A level from 0 up.
    Verbosity,
    /// `pattern=N` between commas.
    VModule,
    /// A quantity.
    Quantity,
    /// `true`, `false`, `raw`, or a version to report; nothing at all for `true`.
    Version,
}

impl Syntax {
    /// The value of the flag when it stands alone; `None` when it needs one.
    pub fn alone(self) -> Option<&'static str> {
        matches!(self, Self::Bool | Self::Version).then_some("true")
    }

    /// The type's name in the usage text, as pflag prints it.
    pub fn usage_name(self) -> &'static str {
        match self {
            Self::Bool | Self::Version => "",
            Self::Integer(32) => "int32",
            Self::Integer(_) => "int",
            Self::Duration => "duration",
            Self::Text => "string",
            Self::TextList => "strings",
            Self::Map(_) | Self::SinglePair | Self::Labels => "mapStringString",
            Self::BoolMap => "mapStringBool",
            Self::HeaderMap => "colonSeparatedMultimapStringString",
            Self::Address => "ip",
            Self::ReservedMemory => "reserved-memory",
            Self::Taints => "[]v1.Taint",
            Self::Verbosity => "Level",
            Self::VModule => "pattern=N,...",
            Self::Quantity => "quantity",
        }
    }
}

/// Reads one occurrence. `before` is the value so far; the result is the new one, `null` when nothing is to change.
pub fn read(syntax: Syntax, before: Option<&Value>, text: &str) -> Result<Value, String> {
    match syntax {
        Syntax::Bool => parse_bool(text).map(Value::Bool),
        Syntax::Integer(bits) => parse_integer(text, bits).map(Value::from),
        Syntax::Duration => GoDuration::parse(text).map(|duration| duration.to_string().into()),
        Syntax::Text => Ok(text.into()),
        Syntax::TextList => {
            let more = split_csv(text)?.into_iter().map(Value::String);
            Ok(list(before).into_iter().chain(more).collect())
        }
        Syntax::Map(separator) => pairs(before, text, separator),
        Syntax::SinglePair => {
            let mut map = map(before);
            insert_pair(&mut map, text, '=')?;
            Ok(map.into())
        }
        Syntax::BoolMap => bool_pairs(before, text),
        Syntax::HeaderMap => header_pairs(before, text),
        Syntax::Labels => Ok(label_pairs(before, text)),
        Syntax::Address if text.is_empty() => Ok(Value::Null),
        Syntax::Address => match parse_address(text) {
            true => Ok(text.into()),
            false => Err(format!("{text:?} is not a valid IP address")),
        },
        Syntax::ReservedMemory if text.is_empty() => Ok(before.cloned().unwrap_or(Value::Null)),
        Syntax::ReservedMemory => {
            let more = text.split(';').map(memory_reservation).collect::<Result<Vec<_>, _>>()?;
            Ok(list(before).into_iter().chain(more).collect())
        }
        Syntax::Taints => taints(text),
        Syntax::Verbosity => parse_unsigned(text).map(Value::from),
        Syntax::VModule => vmodule(before, text),
        Syntax::Quantity => QuantityText::parse(text).map(|_| text.into()),
        Syntax::Version => parse_version(text),
    }
}

fn list(before: Option<&Value>) -> Vec<Value> {
    before.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn map(before: Option<&Value>) -> Map<String, Value> {
    before.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// As Go's `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// As Go's `strconv.ParseInt` with base 0: `0x10`, `0o17`, `017`, `0b1`, `1_000`.
fn parse_integer(text: &str, bits: u32) -> Result<i64, String> {
    let wrong = |what: &str| Err(format!("strconv.ParseInt: parsing {text:?}: {what}"));
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return wrong("invalid syntax");
    }
    let Ok(size) = i128::from_str_radix(&digits, radix) else { return wrong("value out of range") };
    let value = if negative { -size } else { size };
    let limit = 1_i128 << (bits - 1);
    match i64::try_from(value) {
        Ok(number) if (-limit..limit).contains(&value) => Ok(number),
        _ => wrong("value out of range"),
    }
}

/// As Go's `strconv.ParseUint` in base 10 with 31 bits.
fn parse_unsigned(text: &str) -> Result<u32, String> {
    let wrong = |what: &str| Err(format!("strconv.ParseUint: parsing {text:?}: {what}"));
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong("invalid syntax");
    }
    match text.parse::<u32>() {
        Ok(level) if level <= i32::MAX.unsigned_abs() => Ok(level),
        _ => wrong("value out of range"),
    }
}

/// An IP address; leading zeros in IPv4 are decimal, as in old Go releases.
pub fn parse_address(text: &str) -> bool {
    let plain = text.split('.').map(|part| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0",
        trimmed => trimmed,
    });
    text.parse::<IpAddr>().is_ok()
        || (!text.contains(':') && plain.collect::<Vec<_>>().join(".").parse::<IpAddr>().is_ok())
}

/// One record of CSV; a field in quotes may hold commas.
fn split_csv(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut fields = vec![String::new()];
    let (mut rest, mut column) = (text.chars().peekable(), 0);
    let (mut quoted, mut at_start) = (false, true);
    while let Some(c) = rest.next() {
        column += c.len_utf8();
        let field = fields.last_mut().expect("invariant: there is always a field");
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                column += 1;
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if at_start => quoted = true,
            '"' => return Err(format!("parse error on line 1, column {column}: bare \" in non-quoted-field")),
            ',' if !quoted => {
                fields.push(String::new());
                at_start = true;
                continue;
            }
            other => field.push(other),
        }
        at_start = false;
    }
    if quoted {
        return Err(format!("parse error on line 1, column {}: extraneous or missing \" in quoted-field", column + 1));
    }
    Ok(fields)
}

fn insert_pair(map: &mut Map<String, Value>, pair: &str, separator: char) -> Result<(), String> {
    let Some((key, value)) = pair.split_once(separator) else {
        return Err(format!("malformed pair, expect string{separator}string"));
    };
    map.insert(key.trim().into(), value.trim().into());
    Ok(())
}

fn pairs(before: Option<&Value>, text: &str, separator: char) -> Result<Value, String> {
    let mut map = map(before);
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        insert_pair(&mut map, pair, separator)?;
    }
    Ok(map.into())
}

fn bool_pairs(before: Option<&Value>, text: &str) -> Result<Value, String> {
    let mut map = map(before);
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
        let (key, value) = (key.trim(), value.trim());
        let on = parse_bool(value).map_err(|error| format!("invalid value of {key}: {value}, err: {error}"))?;
        map.insert(key.into(), on.into());
    }
    Ok(map.into())
}

fn header_pairs(before: Option<&Value>, text: &str) -> Result<Value, String> {
    let mut map = map(before);
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(':').ok_or("malformed pair, expect string:string")?;
        let values = map.entry(name.trim()).or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(value.trim().into());
        }
    }
    Ok(map.into())
}

fn label_pairs(before: Option<&Value>, text: &str) -> Value {
    let mut map = map(before);
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        map.insert(key.trim().into(), value.trim().into());
    }
    map.into()
}

fn memory_reservation(text: &str) -> Result<Value, String> {
    let format_error = || {
        format!(
            "the reserved memory has incorrect format, expected numaNodeID:type=quantity[,type=quantity...], got {text}"
        )
    };
    let (node, limits) = text.split_once(':').filter(|(_, limits)| !limits.contains(':')).ok_or_else(format_error)?;
    let number: i32 =
        node.parse().map_err(|_| format!("failed to convert the NUMA node ID, expected integer, got {node}"))?;
    let mut amounts = Map::new();
    for limit in limits.split(',') {
        let (resource, amount) = limit
            .split_once('=')
            .filter(|(_, amount)| !amount.contains('='))
            .ok_or_else(|| format!("the reserved limit has incorrect value, expected type=quantity, got {limit}"))?;
        if resource != "memory" && !resource.starts_with("hugepages-") {
            return Err(format!("memory type conversion error, unknown type: {resource:?}"));
        }
        QuantityText::parse(amount).map_err(|_| format!("failed to parse the quantity: {amount}"))?;
        amounts.insert(resource.into(), amount.into());
    }
    Ok(json!({"numaNode": number, "limits": amounts}))
}

fn taints(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(json!([]));
    }
    let mut taints: Vec<(String, String, String)> = Vec::new();
    for part in text.split(',') {
        // A trailing dash means "remove" elsewhere; on a node that is not there yet it means nothing.
        if let Some(removed) = part.strip_suffix('-') {
            taint(removed)?;
            continue;
        }
        let (key, value, effect) = taint(part)?;
        if effect.is_empty() {
            return Err(format!("invalid taint spec: {part}"));
        }
        if taints.iter().any(|(known, _, its_effect)| (known, its_effect) == (&key, &effect)) {
            let shown = format!("{{{key} {value} {effect} <nil>}}");
            return Err(format!("duplicated taints with the same key and effect: {shown}"));
        }
        taints.push((key, value, effect));
    }
    let taints = taints.into_iter().map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}));
    Ok(taints.collect())
}

fn taint(text: &str) -> Result<(String, String, String), String> {
    let invalid = || format!("invalid taint spec: {text}");
    let parts: Vec<&str> = text.split(':').collect();
    let (key, value, effect) = match parts[..] {
        [key] => (key, "", ""),
        [pair, effect] => {
            if !labels::TAINT_EFFECTS.contains(&effect) {
                return Err(format!("invalid taint effect: {effect}, unsupported taint effect"));
            }
            match pair.split('=').collect::<Vec<_>>()[..] {
                [key] => (key, "", effect),
                [key, value] => (key, value, effect),
                _ => return Err(invalid()),
            }
        }
        _ => return Err(invalid()),
    };
    let mut errors = labels::value_errors(value);
    if errors.is_empty() {
        errors = labels::key_errors(key);
    }
    if !errors.is_empty() {
        return Err(format!("invalid taint spec: {text}, {}", errors.join("; ")));
    }
    Ok((key.into(), value.into(), effect.into()))
}

fn vmodule(before: Option<&Value>, text: &str) -> Result<Value, String> {
    let mut items = list(before);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (pattern, level) = match part.split('=').collect::<Vec<_>>()[..] {
            [pattern, level] if !pattern.is_empty() && !level.is_empty() => (pattern, level),
            _ => return Err(format!("{part:?} does not have the pattern=N format")),
        };
        let level = parse_unsigned(level).map_err(|error| format!("parsing verbosity in {part:?}: {error}"))?;
        items.push(json!({"filePattern": pattern, "verbosity": level}));
    }
    Ok(items.into())
}

fn parse_version(text: &str) -> Result<Value, String> {
    let base = version::KUBERNETES_VERSION;
    match text {
        "raw" => Ok("raw".into()),
        _ if text.starts_with('v') => {
            let is_same = text.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '+']));
            if is_same {
                return Ok(text.into());
            }
            Err(format!("version {text:?} must match major/minor/patch of default version {base:?}"))
        }
        _ => parse_bool(text).map(|wanted| if wanted { "true" } else { "false" }.into()),
    }
}
