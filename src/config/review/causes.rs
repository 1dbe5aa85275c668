//! The values that a broken rule is about: those without which it would not be broken. Pure; keeps nothing.
//!
//! A rule's text is for people, so nothing here reads it. Each setting is taken away once, and the rules are asked again:
//! texts that are gone then were about this setting.

use std::collections::BTreeMap;

use serde_json::Value;

use super::origins::Origins;
use super::{Finding, Place};
use crate::config::flags::parse::Parsed;
use crate::config::flags::{self, Flags};
use crate::config::{Config, decode};

/// A configuration and all that set it.
pub(super) struct Subject<'a> {
    pub parsed: &'a Parsed,
    /// The configuration before the command line.
    pub base: &'a Config,
    pub origins: &'a Origins,
}

/// Rules: the texts of those that settings break.
type Rules<'a> = &'a dyn Fn(&Flags, &Config) -> Vec<String>;

impl Subject<'_> {
    /// The texts of the rules, each with the places it is about; without texts that are among `known`.
    pub fn findings(&self, rules: Rules<'_>, known: &[Finding]) -> Vec<Finding> {
        let mut said = self.judge(rules, self.parsed, self.base);
        let all = said.clone();
        said.retain(|text| known.iter().all(|finding| finding.message != *text));
        if said.is_empty() {
            return vec![];
        }
        let mut causes: BTreeMap<String, Vec<(String, Place)>> = BTreeMap::new();
        for flag in self.parsed.values.keys() {
            let mut parsed = self.parsed.clone();
            parsed.values.remove(flag);
            let left = self.judge(rules, &parsed, self.base);
            for text in said.iter().filter(|text| !left.contains(text)) {
                causes.entry(text.clone()).or_default().push(((*flag).to_owned(), Place::flag(flag)));
            }
        }
        let document = Value::Object(decode::to_json(self.base));
        let defaults = Value::Object(decode::to_json(&decode::file_defaults()));
        for (pointer, is_item) in self.origins.settings() {
            let (Some(config), Some(place)) = (without(&document, &defaults, pointer), self.origins.place(pointer))
            else {
                continue;
            };
            let left = self.judge(rules, self.parsed, &config);
            // Texts may count entries of lists, and a gap renumbers those behind it.
            if is_item && left.iter().any(|text| !all.contains(text)) {
                continue;
            }
            for text in said.iter().filter(|text| !left.contains(text)) {
                let causes = causes.entry(text.clone()).or_default();
                // An entry says more than its list.
                causes.retain(|(known, _)| !pointer.starts_with(&format!("{known}/")));
                causes.push((pointer.to_owned(), place.clone()));
            }
        }
        let finding = |message: String| {
            let mut places: Vec<Place> =
                causes.remove(&message).unwrap_or_default().into_iter().map(|(_, place)| place).collect();
            places.sort();
            places.dedup();
            Finding { places, message }
        };
        said.into_iter().map(finding).collect()
    }

    fn judge(&self, rules: Rules<'_>, parsed: &Parsed, base: &Config) -> Vec<String> {
        rules(&Flags::from_parsed(parsed), &flags::apply(base, parsed))
    }
}

/// The configuration with one setting at its default; `None` when it is not there.
fn without(document: &Value, defaults: &Value, pointer: &str) -> Option<Config> {
    document.pointer(pointer)?;
    let mut document = document.clone();
    let (parent, key) = pointer.rsplit_once('/')?;
    match (document.pointer_mut(parent)?, defaults.pointer(pointer)) {
        (Value::Object(fields), default) => {
            let key = key.replace("~1", "/").replace("~0", "~");
            match default {
                Some(default) => fields.insert(key, default.clone()),
                None => fields.remove(&key),
            };
        }
        (Value::Array(items), _) => drop(items.remove(key.parse().ok()?)),
        _ => return None,
    }
    match document {
        Value::Object(fields) => Some(decode::from_json(fields)),
        _ => None,
    }
}
