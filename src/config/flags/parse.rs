//! The command line, read as pflag reads it.
//!
//! Pure; keeps nothing. Error texts are pflag's, because people and scripts know them.

use super::suggest;
use super::table::{self, Flag, SHORTHANDS};
use super::values::{self, Syntax};
use serde_json::Value;
use std::collections::BTreeMap;

/// The parts of a command line. Without `Debug`, because headers carry credentials.
#[derive(Clone, PartialEq, Default)]
pub struct Parsed {
    /// The value of each flag that was given, by name, all its occurrences taken together.
    pub values: BTreeMap<&'static str, Value>,
    /// The words that are no flags.
    pub positional: Vec<String>,
    /// A line for each use of a deprecated flag, for standard error.
    pub notices: Vec<String>,
}

/// Why a command line cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub struct ParseError {
    /// pflag's text.
    pub message: String,
    /// Notices about the flags before the wrong one.
    pub notices: Vec<String>,
}

/// Reads the arguments after the program's name.
pub fn parse(args: &[String]) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    match parse_all(args, &mut parsed) {
        Ok(()) => Ok(parsed),
        Err(message) => Err(ParseError { message, notices: parsed.notices }),
    }
}

fn parse_all(args: &[String], parsed: &mut Parsed) -> Result<(), String> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        parse_one(arg, &mut rest, parsed)?;
    }
    Ok(())
}

/// As [`parse`], but goes on after a word that cannot be read: also each such flag with its error.
///
/// A flag that nobody knows takes no value here, so the words behind it up to the next flag are passed over.
pub fn parse_each(args: &[String]) -> (Parsed, Vec<(String, String)>) {
    let (mut parsed, mut errors) = (Parsed::default(), Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Err(error) = parse_one(arg, &mut rest, &mut parsed) else { continue };
        let (flag, has_value) = arg.split_once('=').map_or((arg.as_str(), false), |(flag, _)| (flag, true));
        let known = flag.strip_prefix("--").is_some_and(|name| table::find(name).is_some());
        while !known && !has_value && rest.as_slice().first().is_some_and(|next| !next.starts_with('-')) {
            rest.next();
        }
        errors.push((flag.to_owned(), error));
    }
    (parsed, errors)
}

fn parse_one(arg: &String, rest: &mut Rest<'_>, parsed: &mut Parsed) -> Result<(), String> {
    if arg == "--" {
        parsed.positional.extend(rest.by_ref().cloned());
        return Ok(());
    }
    if let Some(long) = arg.strip_prefix("--") {
        return parse_long(arg, long, rest, parsed);
    }
    if let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) {
        return parse_letters(letters, rest, parsed);
    }
    parsed.positional.push(arg.clone());
    Ok(())
}

type Rest<'a> = std::slice::Iter<'a, String>;

fn parse_long(arg: &str, long: &str, rest: &mut Rest<'_>, parsed: &mut Parsed) -> Result<(), String> {
    if long.starts_with(['-', '=']) {
        return Err(format!("bad flag syntax: {arg}"));
    }
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let flag = table::find(name).ok_or_else(|| format!("unknown flag: --{name}{}", suggest::flag(name)))?;
    let value = match (value, flag.syntax.alone()) {
        (Some(value), _) => value,
        (None, Some(alone)) => alone,
        (None, None) => rest.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
    };
    take(flag, value, parsed)
}

fn parse_letters(letters: &str, rest: &mut Rest<'_>, parsed: &mut Parsed) -> Result<(), String> {
    let mut remaining = letters;
    while let Some(letter) = remaining.chars().next() {
        let after = &remaining[letter.len_utf8()..];
        let name = SHORTHANDS.iter().find(|(shorthand, _)| *shorthand == letter).map(|(_, name)| *name);
        let Some(flag) = name.and_then(table::find) else {
            return Err(format!("unknown shorthand flag: {letter:?} in -{remaining}"));
        };
        if let Some(value) = after.strip_prefix('=').filter(|value| !value.is_empty()) {
            return take(flag, value, parsed);
        }
        if let Some(alone) = flag.syntax.alone() {
            take(flag, alone, parsed)?;
            remaining = after;
            continue;
        }
        if !after.is_empty() {
            return take(flag, after, parsed);
        }
        let value = rest.next().ok_or_else(|| format!("flag needs an argument: {letter:?} in -{remaining}"))?;
        return take(flag, value, parsed);
    }
    Ok(())
}

fn take(flag: &'static Flag, text: &str, parsed: &mut Parsed) -> Result<(), String> {
    let value = values::read(flag.syntax, parsed.values.get(flag.name), text).map_err(|error| {
        let letter = SHORTHANDS.iter().find(|(_, name)| *name == flag.name);
        let shown = letter.map_or_else(|| format!("--{}", flag.name), |(letter, name)| format!("-{letter}, --{name}"));
        // Unlike upstream: what was meant as a header's value is not for the log.
        let text = if flag.syntax == Syntax::HeaderMap { "<masked>" } else { text };
        format!("invalid argument {text:?} for {shown:?} flag: {error}")
    })?;
    if let Some(deprecated) = flag.deprecated {
        parsed.notices.push(format!("Flag --{} has been deprecated, {deprecated}", flag.name));
    }
    // An empty address or reservation changes nothing, not even what an earlier occurrence set.
    if !value.is_null() {
        parsed.values.insert(flag.name, value);
    }
    Ok(())
}
