//! The folder of local objects, as an operator fills it.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::World;
use crate::sim::node::folders::OBJECTS_FOLDER;

fn path(file: &str) -> PathBuf {
    Path::new(OBJECTS_FOLDER).join(file)
}

impl World {
    /// Somebody writes a file with one ConfigMap, named as the file is.
    pub fn write_config_map(&self, name: &str, key: &str, value: &str) {
        let metadata = json!({ "name": name, "namespace": "default" });
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { key: value } });
        self.write_object_file(name, &object.to_string());
    }

    /// Somebody writes a file.
    pub fn write_object_file(&self, name: &str, text: &str) {
        self.node().story.tell("user", format!("writes the local object {name}"));
        self.node().objects.write(path(&format!("{name}.json")), text.as_bytes(), &self.node().faults);
    }

    /// Somebody removes a file.
    pub fn remove_object_file(&self, name: &str) {
        self.node().story.tell("user", format!("removes the local object {name}"));
        self.node().objects.remove(path(&format!("{name}.json")), &self.node().faults);
    }
}
