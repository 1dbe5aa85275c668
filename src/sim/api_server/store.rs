//! The store of the simulated API server: objects by their keys, each change with its version, and its watchers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::refusal::Refused;
use super::resources::Resource;

/// Changes that are remembered for watches that begin in the past.
const CHANGES_MAX: usize = 1000;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Of which resource.
    pub plural: &'static str,
    /// Empty for objects without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// Of these parts.
    pub fn new(resource: &'static Resource, namespace: Option<&str>, name: &str) -> Self {
        Self { plural: resource.plural, namespace: namespace.unwrap_or_default().to_owned(), name: name.to_owned() }
    }
}

#[derive(Clone, Debug)]
struct Change {
    version: u64,
    key: Key,
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
    /// As events have it: where it is gone, as it was last, with the version of its end.
    shown: Arc<Value>,
}

/// Which objects are meant.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Of which resource.
    pub resource: &'static Resource,
    /// In which namespace; `None` for all.
    pub namespace: Option<String>,
    /// Paths such as `spec.nodeName`, whether they have to be equal, and to what.
    pub fields: Vec<(String, bool, String)>,
    /// The same of labels.
    pub labels: Vec<(String, bool, String)>,
}

impl Selection {
    fn holds(&self, key: &Key, object: &Value) -> bool {
        let field = |path: &str| {
            let value = path.split('.').fold(object, |value, segment| &value[segment]);
            value.as_str().unwrap_or_default().to_owned()
        };
        let label = |name: &str| object["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        key.plural == self.resource.plural
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.fields.iter().all(|(path, equal, value)| (field(path) == *value) == *equal)
            && self.labels.iter().all(|(name, equal, value)| (label(name) == *value) == *equal)
    }

    /// The event by which a watcher of these objects hears of a change.
    fn event(&self, change: &Change) -> Option<Value> {
        let held = |object: &Option<Arc<Value>>| object.as_ref().is_some_and(|object| self.holds(&change.key, object));
        let kind = match (held(&change.before), held(&change.after)) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(json!({ "type": kind, "object": &*change.shown }))
    }

    /// The list's kind.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.resource.kind)
    }
}

#[derive(Debug)]
struct Watcher {
    selection: Selection,
    teller: UnboundedSender<Value>,
}

/// A copy of a store, as `etcdctl snapshot save` makes one.
#[derive(Clone, Debug)]
pub struct Saved {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    changes: VecDeque<Change>,
    version: u64,
    /// Changes up to this version are forgotten.
    forgotten: u64,
    watchers: Vec<Watcher>,
}

impl Store {
    /// The newest version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The object there.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// All objects of a resource, by key.
    pub fn all(&self, plural: &str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| key.plural == plural)
    }

    /// The objects of a selection.
    pub fn keys(&self, selection: &Selection) -> Vec<Key> {
        self.objects.iter().filter(|(key, object)| selection.holds(key, object)).map(|(key, _)| key.clone()).collect()
    }

    /// Writes an object, or takes it away; gives it as it is then. An unchanged object keeps its version.
    pub fn write(&mut self, key: Key, object: Option<Value>) -> Arc<Value> {
        let before = self.objects.get(&key).cloned();
        if let (Some(before), Some(new)) = (&before, &object)
            && **before == *new
        {
            return Arc::clone(before);
        }
        self.version += 1;
        let is_there = object.is_some();
        let mut shown = object.or_else(|| before.as_deref().cloned()).unwrap_or_default();
        shown["metadata"]["resourceVersion"] = self.version.to_string().into();
        let shown = Arc::new(shown);
        let after = is_there.then(|| Arc::clone(&shown));
        match &after {
            Some(after) => drop(self.objects.insert(key.clone(), Arc::clone(after))),
            None => drop(self.objects.remove(&key)),
        }
        let change = Change { version: self.version, key, before, after, shown: Arc::clone(&shown) };
        self.watchers.retain(|watcher| match watcher.selection.event(&change) {
            Some(event) => watcher.teller.send(event).is_ok(),
            None => !watcher.teller.is_closed(),
        });
        self.changes.push_back(change);
        while self.changes.len() > CHANGES_MAX {
            self.forget_one();
        }
        shown
    }

    fn forget_one(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.forgotten = change.version;
        }
    }

    /// Forgets all changes so far: watches that begin before now get that as their answer.
    pub fn compact(&mut self) {
        while !self.changes.is_empty() {
            self.forget_one();
        }
    }

    /// The selected objects, as they were at a version, or at the oldest that is remembered; with that version.
    pub fn list(&self, selection: &Selection, version: u64) -> (Vec<Arc<Value>>, u64) {
        let version = version.clamp(self.forgotten, self.version);
        let mut objects: BTreeMap<&Key, &Arc<Value>> = self.objects.iter().collect();
        for change in self.changes.iter().rev().take_while(|change| change.version > version) {
            match &change.before {
                Some(before) => drop(objects.insert(&change.key, before)),
                None => drop(objects.remove(&change.key)),
            }
        }
        let selected = objects.into_iter().filter(|(key, object)| selection.holds(key, object));
        (selected.map(|(_, object)| Arc::clone(object)).collect(), version)
    }

    /// Tells `teller` what changes from now on, and first all there is, or what changed since a version.
    ///
    /// # Errors
    /// When that version is forgotten.
    pub fn watch(
        &mut self,
        selection: Selection,
        since: Option<u64>,
        teller: UnboundedSender<Value>,
    ) -> Result<(), Refused> {
        if let Some(since) = since.filter(|since| *since > self.version) {
            return Err(Refused::too_new(since, self.version));
        }
        if let Some(since) = since.filter(|since| *since < self.forgotten) {
            return Err(Refused::expired(since, self.forgotten));
        }
        match since {
            None => {
                for object in self.list(&selection, self.version).0 {
                    let _ = teller.send(json!({ "type": "ADDED", "object": &*object })); // The asker may have left.
                }
            }
            Some(since) => {
                for change in self.changes.iter().filter(|change| change.version > since) {
                    if let Some(event) = selection.event(change) {
                        let _ = teller.send(event);
                    }
                }
            }
        }
        self.watchers.push(Watcher { selection, teller });
        Ok(())
    }

    /// The content of a copy of the store.
    pub fn copy(&self) -> Saved {
        Saved { objects: self.objects.clone(), version: self.version }
    }

    /// Holds what a copy did, and nothing since: versions go back, and no watch hears of it.
    pub fn restore(&mut self, copy: &Saved) {
        (self.objects, self.version, self.forgotten) = (copy.objects.clone(), copy.version, copy.version);
        self.changes.clear();
        self.end_watches();
    }

    /// Ends all watches.
    pub fn end_watches(&mut self) {
        self.watchers.clear();
    }
}
