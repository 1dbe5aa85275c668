//! The file of `--config` and the drop-ins, read to the end: all their faults, and what they set. The only I/O is that of
//! `files`.

use std::path::Path;

use serde_json::{Map, Value};

use super::origins::Origins;
use super::{Place, Report};
use crate::config::flags::Flags;
use crate::config::{Config, FeatureGates, decode, files, schema};
use crate::logic::formats::yaml::places::Places;
use crate::logic::formats::yaml::{self, Duplicates};

/// See the module.
pub(super) struct Documents {
    /// The configuration before the command line. Values of a wrong type are left out of it.
    pub config: Config,
    /// Where its values were set.
    pub origins: Origins,
    /// A file of it could not be read, so that nobody knows the whole.
    pub unreadable: bool,
}

/// The kind of a file: only one of them forgives repeated keys.
#[derive(Clone, Copy)]
enum Role {
    Main,
    DropIn,
}

impl Documents {
    pub fn load(given: &Flags, gates: &FeatureGates, report: &mut Report) -> Self {
        let mut all = Self { config: decode::legacy_defaults(), origins: Origins::default(), unreadable: false };
        if !given.config.is_empty() {
            all.load_main(&given.config, gates, report);
        }
        if !given.config_dir.is_empty() {
            all.load_drop_ins(&given.config_dir, gates, report);
        }
        all
    }

    fn load_main(&mut self, name: &str, gates: &FeatureGates, report: &mut Report) {
        let path = match files::absolute(name) {
            Ok(path) => path,
            Err(error) => return self.give_up(name, error, report),
        };
        let shown = path.display().to_string();
        let document = files::read_main(&path).and_then(|bytes| self.read(&bytes, &shown, Role::Main, report));
        let document = match document {
            Ok(document) => document,
            Err(error) if error.is_empty() => return, // It is in the report already.
            Err(error) => return self.give_up(&shown, error, report),
        };
        let mut fields = self.surveyed(document.as_object().unwrap_or(&Map::new()), report, "");
        schema::apply_defaults(&mut fields, gates);
        decode::complete_eviction(&mut fields);
        self.config = decode::from_json(fields);
        files::resolve_paths(&mut self.config, path.parent().unwrap_or(Path::new("/")));
    }

    fn load_drop_ins(&mut self, directory: &str, gates: &FeatureGates, report: &mut Report) {
        let (drop_ins, skipped) = match files::drop_ins(directory) {
            Ok(found) => found,
            Err(error) => return self.give_up(directory, error, report),
        };
        for file in skipped {
            let place = Place::file(&file.display().to_string(), None);
            report.warn(vec![place], "left out: its name does not end in .conf".to_owned());
        }
        let mut merged = Value::Object(decode::printed(&self.config));
        for path in drop_ins {
            if let Some(patch) = self.load_drop_in(&path, report) {
                decode::merge_patch(&mut merged, &patch);
            }
        }
        let mut fields = self.surveyed(merged.as_object().unwrap_or(&Map::new()), report, ", it is dropped");
        schema::apply_defaults(&mut fields, gates);
        self.config = decode::from_json(fields);
    }

    fn load_drop_in(&mut self, path: &Path, report: &mut Report) -> Option<Value> {
        let absolute = files::absolute(&path.to_string_lossy()).unwrap_or_else(|_| path.to_owned());
        let shown = absolute.display().to_string();
        let patch = files::read_drop_in(&absolute).and_then(|bytes| self.read(&bytes, &shown, Role::DropIn, report));
        if let Err(error) = &patch
            && !error.is_empty()
        {
            self.give_up(&shown, error.clone(), report);
        }
        patch.ok()
    }

    fn give_up(&mut self, place: &str, error: String, report: &mut Report) {
        self.unreadable = true;
        report.error(vec![Place::file(place, None)], error);
    }

    /// Reads a document and lays it over those before. An empty error is one that the report has already.
    fn read(&mut self, bytes: &[u8], shown: &str, role: Role, report: &mut Report) -> Result<Value, String> {
        let text = decode::as_text(bytes)?;
        let (value, places) = match yaml::to_json(text, Duplicates::LastWins) {
            Ok(value) => (value, Places::of(text).unwrap_or_default()),
            Err(error) => {
                self.unreadable = true;
                report.error(vec![Place::file(shown, error.line)], error.as_upstream());
                return Err(String::new());
            }
        };
        for repeated in &places.repeated {
            let (place, key) = (vec![Place::file(shown, Some(repeated.line))], &repeated.key);
            match role {
                Role::Main => report.warn(place, format!("key {key:?} already set in map, the later one counts")),
                Role::DropIn => report.error(place, format!("key {key:?} already set in map")),
            }
        }
        if let Err(error) = decode::type_checked(&value, text) {
            self.unreadable = true;
            let line = places.line("/kind").or_else(|| places.line("/apiVersion"));
            report.error(vec![Place::file(shown, line)], error);
            return Err(String::new());
        }
        self.origins.lay(&value, &|pointer| Place::file(shown, places.line(pointer)));
        Ok(value)
    }

    /// The fields of a document that are right; the others go to the report.
    fn surveyed(&self, document: &Map<String, Value>, report: &mut Report, unknown: &str) -> Map<String, Value> {
        let (fields, found) = schema::survey(document);
        for wrong in found.wrong {
            report.error(self.origins.place(&wrong.pointer).into_iter().collect(), wrong.text);
        }
        for field in found.unknown {
            let message = format!("unknown field {:?}{unknown}", field.path);
            report.warn(self.origins.place(&field.pointer).into_iter().collect(), message);
        }
        fields
    }
}
