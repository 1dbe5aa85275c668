//! The part of a pod that an Event is about, as the API writes it: `spec.containers{web}`.

/// Of a container in one of the spec's lists.
pub fn of_container(list: &str, name: &str) -> String {
    format!("spec.{list}{{{name}}}")
}

/// The container's name; `None` for the path of anything else, such as the empty one of the pod itself.
pub fn container_in(field_path: &str) -> Option<&str> {
    field_path.split_once('{')?.1.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_in_its_field_path() {
        assert_eq!(of_container("initContainers", "web"), "spec.initContainers{web}");
        assert_eq!(container_in(&of_container("containers", "web")), Some("web"));
        assert_eq!([container_in(""), container_in("spec.volumes")], [None; 2]);
    }
}
