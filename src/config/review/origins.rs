//! Which file and line, or which flag, set each value of a configuration. Pure; keeps nothing of the values.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Place;
use crate::config::flags::parse::Parsed;
use crate::config::flags::table::{FLAGS, Target};
use crate::logic::formats::yaml::places::below;

/// A value's part in its document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Can be unset by itself.
    Single,
    /// Holds others by key.
    Holder,
    /// Is in a list.
    Item,
    /// Is inside an entry of a list.
    Inner,
}

/// See the module.
#[derive(Clone, Default, Debug)]
pub(super) struct Origins(BTreeMap<String, (Place, Part)>);

impl Origins {
    /// Lays a document over those before, as a JSON merge patch: maps merge, `null` removes, anything else replaces.
    pub fn lay(&mut self, document: &Value, place: &dyn Fn(&str) -> Place) {
        self.lay_at("", document, place);
    }

    fn lay_at(&mut self, pointer: &str, value: &Value, place: &dyn Fn(&str) -> Place) {
        if let Value::Object(entries) = value {
            if self.0.get(pointer).is_some_and(|(_, part)| *part != Part::Holder) {
                self.forget(pointer);
            }
            self.0.entry(pointer.to_owned()).or_insert_with(|| (place(pointer), Part::Holder));
            for (key, value) in entries {
                self.lay_at(&below(pointer, key), value, place);
            }
            return;
        }
        self.forget(pointer);
        if !value.is_null() {
            self.0.insert(pointer.to_owned(), (place(pointer), Part::Single));
            self.lay_inside(pointer, value, Part::Item, place);
        }
    }

    fn lay_inside(&mut self, pointer: &str, value: &Value, part: Part, place: &dyn Fn(&str) -> Place) {
        let inside: Vec<(String, &Value)> = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| (below(pointer, &index.to_string()), item)).collect()
            }
            Value::Object(entries) => entries.iter().map(|(key, value)| (below(pointer, key), value)).collect(),
            _ => return,
        };
        for (pointer, value) in inside {
            self.0.insert(pointer.clone(), (place(&pointer), part));
            self.lay_inside(&pointer, value, Part::Inner, place);
        }
    }

    fn forget(&mut self, pointer: &str) {
        let inside = format!("{pointer}/");
        self.0.retain(|known, _| known != pointer && !known.starts_with(&inside));
    }

    /// These, with the flags of a command line on top.
    pub fn with_flags(mut self, parsed: &Parsed) -> Self {
        for flag in FLAGS {
            if let (Target::Configuration(pointer), Some(value)) = (flag.target, parsed.values.get(flag.name)) {
                self.lay_at(pointer, value, &|_| Place::flag(flag.name));
            }
        }
        self
    }

    /// Where a value was set, or what holds it.
    pub fn place(&self, pointer: &str) -> Option<Place> {
        let mut rest = pointer;
        while !rest.is_empty() {
            if let Some((place, _)) = self.0.get(rest) {
                return Some(place.clone());
            }
            rest = &rest[..rest.rfind('/')?];
        }
        None
    }

    /// The values that can be unset one by one; `true` for entries of lists.
    pub fn settings(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().filter_map(|(pointer, (_, part))| match part {
            Part::Single => Some((pointer.as_str(), false)),
            Part::Item => Some((pointer.as_str(), true)),
            Part::Holder | Part::Inner => None,
        })
    }
}
