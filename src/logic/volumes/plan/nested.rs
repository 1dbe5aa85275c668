//! Directories that must be in a volume before it is mounted read-only, because other volumes are mounted on them
//! (VOL-35).

use k8s_openapi::api::core::v1::{Pod, VolumeMount};

use crate::logic::volumes::mounting::mounting_containers;

/// Directories to make in the volume `name`, relative to it: for each container the outermost mount paths below one of
/// the volume's own.
///
/// # Errors
/// Upstream's text for a mount path that goes up.
pub fn nested_mount_points(name: &str, pod: &Pod) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for container in mounting_containers(pod) {
        of_container(name, container.mounts, &mut found)?;
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn of_container(name: &str, mounts: &[VolumeMount], found: &mut Vec<String>) -> Result<(), String> {
    let mut all = Vec::new();
    for mount in mounts {
        all.push((mount.name.as_str(), cleaned(&mount.mount_path)?));
    }
    all.sort_by(|left, right| left.1.cmp(&right.1));
    for (_, mine) in all.iter().filter(|(of, _)| *of == name) {
        let mut outer: Vec<&[String]> = Vec::new();
        for (_, path) in &all {
            let is_below = path.len() > mine.len() && path.starts_with(mine);
            if is_below && !outer.iter().any(|outer| path.len() > outer.len() && path.starts_with(outer)) {
                outer.push(path);
                found.push(path[mine.len()..].join("/"));
            }
        }
    }
    Ok(())
}

/// A mount path's elements, in simple form.
fn cleaned(path: &str) -> Result<Vec<String>, String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() && !path.starts_with('/') {
                    return Err(format!("invalid container mount point {path}"));
                }
            }
            part => parts.push(part.to_owned()),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;

    fn points(mounts: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let mounts = mounts.iter().map(|(name, path)| VolumeMount {
            name: (*name).into(),
            mount_path: (*path).into(),
            ..VolumeMount::default()
        });
        let container = Container { volume_mounts: Some(mounts.collect()), ..Container::default() };
        let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
        nested_mount_points("me", &Pod { spec: Some(spec), ..Pod::default() })
    }

    /// VOL-35.
    #[test]
    fn only_the_outermost_places_below_are_made() {
        type Mounts<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Mounts, &[&str]); 5] = [
            (&[("me", "/dir")], &[]),
            (&[("me", "/dir"), ("other", "/dir2")], &[]),
            (&[("me", "/dir"), ("other", "/dir/nested"), ("third", "/dir/nested/more")], &["nested"]),
            (
                &[("me", "/dir/"), ("a", "/dir/nested-vol"), ("b", "/dir/nested/double"), ("c", "/dir/./nested")],
                &["nested", "nested-vol"],
            ),
            (&[("me", "/a"), ("me", "/b"), ("other", "/a/x"), ("other", "/b/y/z")], &["x", "y/z"]),
        ];
        for (mounts, expected) in cases {
            assert_eq!(points(mounts).unwrap(), expected, "{mounts:?}");
        }
    }

    #[test]
    fn a_path_that_goes_up_is_refused_and_none_leaves_the_volume() {
        assert!(points(&[("me", "dir"), ("other", "../etc")]).is_err());
        assert_eq!(points(&[("me", "/dir"), ("other", "/dir/../../etc")]), Ok(vec![]));
    }
}
