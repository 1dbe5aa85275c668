//! Where writable layers of containers are: the upper directories of overlay mounts, as the node's mount table tells.
//!
//! The runtime counts a layer by the same walk, and would ask every shim on its way to tell.

use std::collections::BTreeMap;

/// The folder that a runtime mounts a container's root at, in a folder of the container's ID.
const ROOT: &str = "rootfs";
/// The least length of a container's ID: shorter names of folders are something else.
const ID_BYTES_MIN: usize = 32;

/// Upper directories by container ID.
pub(super) fn upper_directories(table: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(table);
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((mount, system)) = line.split_once(" - overlay ") else { continue };
        let Some(point) = mount.split(' ').nth(4) else { continue };
        let mut folders = point.rsplit('/');
        let (Some(ROOT), Some(id)) = (folders.next(), folders.next()) else { continue };
        let is_id = id.len() >= ID_BYTES_MIN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let options = system.split(' ').nth(1).unwrap_or_default().split(',');
        let upper = options.filter_map(|option| option.strip_prefix("upperdir=")).next();
        // A path that the kernel writes in another way than it is falls to the runtime's own account.
        if let Some(upper) = upper.filter(|upper| is_id && upper.starts_with('/') && !upper.contains('\\')) {
            found.insert(id.to_owned(), upper.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::upper_directories;

    #[test]
    fn only_roots_of_containers_count() {
        let id = "a".repeat(64);
        let line =
            |point: &str, options: &str| format!("50 22 0:50 / {point} rw shared:9 - overlay overlay {options}\n");
        let table = [
            line(
                &format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/rootfs"),
                "rw,lowerdir=/x/1/fs,upperdir=/x/9/fs,workdir=/x/9/work",
            ),
            line("/mnt/merged", "rw,lowerdir=/a,upperdir=/b,workdir=/c"),
            line("/mnt/short/rootfs", "rw,lowerdir=/a,upperdir=/b,workdir=/c"),
            line(&format!("/mnt/{}/rootfs", "b".repeat(64)), "ro,lowerdir=/a:/b"),
            "51 22 0:51 / /mnt rw - tmpfs none rw\n".to_owned(),
        ];
        let found: Vec<_> = upper_directories(table.concat().as_bytes()).into_iter().collect();
        assert_eq!(found, [(id, "/x/9/fs".to_owned())]);
    }
}
