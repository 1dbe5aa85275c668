//! Names of log files and directories, and what a listing of them tells.
//!
//! A pod's logs live in `<pod logs>/<namespace>_<name>_<uid>/<container>/<restart count>.log`; `/var/log/containers`
//! holds a link to each for collectors. Names only: whoever creates the files checks that each part is one path
//! segment (`path_segment`).

use crate::logic::formats::path_segment::SEGMENT_LENGTH_MAX;
use crate::logic::model::ids::PodUid;

/// Name of a pod's directory below the pod logs directory.
pub fn pod_log_directory_name(namespace: &str, name: &str, uid: &str) -> String {
    format!("{namespace}_{name}_{uid}")
}

/// Absolute path of a pod's log directory below `pod_logs` (upstream's default: `/var/log/pods`).
pub fn pod_log_directory(pod_logs: &str, namespace: &str, name: &str, uid: &str) -> String {
    format!("{}/{}", pod_logs.trim_end_matches('/'), pod_log_directory_name(namespace, name, uid))
}

/// The UID in the name of a pod's log directory: all after the last `_`, or the whole name, as directories were named
/// long ago.
pub fn pod_uid_of_log_directory(directory_name: &str) -> PodUid {
    PodUid::from(directory_name.rsplit('_').next().unwrap_or(directory_name))
}

/// A container's log file, relative to its pod's log directory.
pub fn container_log_path(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

/// Name of the link to a container's log in `/var/log/containers`, cut so that it stays a valid file name.
pub fn log_link_name(pod_name: &str, namespace: &str, container: &str, container_id: &str) -> String {
    let mut name = format!("{pod_name}_{namespace}_{container}-{container_id}");
    let mut end = name.len().min(SEGMENT_LENGTH_MAX - ".log".len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name.push_str(".log");
    name
}

/// The container ID in the name of a link in `/var/log/containers`; `None` when it is no such name, or when fewer than six
/// characters of the ID are left (a shorter ID would match too much).
pub fn container_id_of_log_link(link_name: &str) -> Option<&str> {
    let id = link_name.rsplit('-').next()?.strip_suffix(".log")?;
    (id.len() >= 6).then_some(id)
}

/// The restart count for a container that starts. `known` is what the runtime's instances give, 0 where it knows of none.
/// Then the names in the container's log directory decide: one more than the highest `N` of all `N.log` and `N.log.*`, so
/// that no log is written over; 0 when there is none.
pub fn restart_count<'a>(known: u32, file_names: impl IntoIterator<Item = &'a str>) -> u32 {
    if known > 0 {
        return known;
    }
    file_names.into_iter().filter_map(log_file_number).map(|number| number.saturating_add(1)).max().unwrap_or(0)
}

/// `N` of a name that begins with `N.log`, as upstream's pattern has it. A number that does not fit a restart count of
/// the API is nothing that a kubelet wrote.
fn log_file_number(file_name: &str) -> Option<u32> {
    let digits = file_name.find(|character: char| !character.is_ascii_digit())?;
    file_name[digits..].starts_with(".log").then_some(())?;
    file_name[..digits].parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok_and(|n| n < i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::formats::path_segment::is_safe_segment;

    #[test]
    fn directories_and_files_are_named_as_upstream() {
        assert_eq!(pod_log_directory("/var/log/pods", "ns", "web", "u-1"), "/var/log/pods/ns_web_u-1");
        assert_eq!(pod_log_directory("/var/log/pods/", "ns", "web", "u-1"), "/var/log/pods/ns_web_u-1");
        assert_eq!(container_log_path("app", 3), "app/3.log");
        assert_eq!(log_link_name("web", "ns", "app", "0123456789ab"), "web_ns_app-0123456789ab.log");
    }

    #[test]
    fn the_uid_is_what_follows_the_last_underscore() {
        for (name, uid) in [("ns_web_u-1", "u-1"), ("u-1", "u-1"), ("ns_web_", ""), ("a_b_c_d", "d")] {
            assert_eq!(pod_uid_of_log_directory(name), PodUid::from(uid), "{name}");
        }
    }

    #[test]
    fn link_names_are_at_most_255_bytes() {
        let id = "f".repeat(64);
        let cases = [(179, 252), (182, 255), (183, 255), (400, 255)];
        for (pod_name, length) in cases {
            let name = log_link_name(&"p".repeat(pod_name), "n", "c", &id);
            assert_eq!(name.len(), length, "{pod_name}");
            assert!(name.ends_with(".log"));
        }
    }

    #[test]
    fn container_ids_are_found_in_links() {
        let cases = [
            ("web_ns_app-0123456789ab.log", Some("0123456789ab")),
            ("my-web_ns_app-012345.log", Some("012345")),
            ("web_ns_app-01234.log", None),
            ("web_ns_app-0123456789ab", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(container_id_of_log_link(name), expected, "{name:?}");
        }
    }

    #[test]
    fn the_restart_count_follows_the_highest_log() {
        let cases: [(&[&str], u32); 11] = [
            (&[], 0),
            (&["0.log"], 1),
            (&["2.log", "10.log", "3.log"], 11),
            (&["4.log.20260101-000000", "4.log.20260101-000000.gz"], 5),
            (&["7.log.tmp", "1.log"], 8),
            (&["6.logs"], 7),
            (&["x.log", ".log", "-1.log", "1.txt", "12"], 0),
            (&["007.log"], 8),
            (&["2147483646.log"], 2_147_483_647),
            (&["2147483647.log", "1.log"], 2),
            (&["99999999999999999999.log"], 0),
        ];
        for (names, expected) in cases {
            assert_eq!(restart_count(0, names.iter().copied()), expected, "{names:?}");
        }
    }

    #[test]
    fn the_restart_count_that_the_runtime_gives_stands_whatever_the_logs_are() {
        assert_eq!(restart_count(3, ["9.log"]), 3);
        assert_eq!(restart_count(1, []), 1);
    }

    proptest::proptest! {
        #[test]
        fn links_are_valid_file_names(pod in "[a-zé.-]{1,253}", container in "[a-zé-]{1,63}", id in "[0-9a-f]{64}") {
            let name = log_link_name(&pod, "default", &container, &id);
            proptest::prop_assert!(name.len() <= 255 && name.ends_with(".log") && is_safe_segment(&name).is_ok());
        }

        #[test]
        fn the_next_log_is_never_an_existing_one(counts in proptest::collection::vec(0_u32..1000, 0..8)) {
            let names = counts.iter().map(|count| format!("{count}.log")).collect::<Vec<_>>();
            let next = restart_count(0, names.iter().map(String::as_str));
            proptest::prop_assert!(!counts.contains(&next));
        }
    }
}
