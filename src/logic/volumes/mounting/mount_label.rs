//! SELinux: the label that a whole persistent volume is mounted with, so that nobody labels its files one by one (VOL-31;
//! KEP-1710).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod, SELinuxOptions};

use super::mounting_containers;

/// The pod's word for having its files labelled one by one.
const RECURSIVE: &str = "Recursive";

/// The label of containers' files by the node's policy. A pod's own options take the place of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLabel {
    user: String,
    role: String,
    kind: String,
}

impl FileLabel {
    /// Reads a policy's file of containers' labels: lines like `file = "system_u:object_r:container_file_t:s0"`. `None` where
    /// it names none for files, or none for processes, whose files they would be.
    pub fn of_policy(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        let pairs: Vec<_> = lines.filter_map(|line| line.split_once('=')).collect();
        let value = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key.trim() == name);
            found.map(|(_, value)| value.trim().trim_matches('"')).filter(|value| !value.is_empty())
        };
        value("process")?;
        let mut parts = value("file")?.split(':').map(str::to_owned);
        Some(Self { user: parts.next()?, role: parts.next()?, kind: parts.next()? })
    }

    /// The label of the files of a process with these options; `None` where they name no level, which the runtime then
    /// chooses.
    ///
    /// # Errors
    /// Characters that no label has: the options become an argument of a program that runs as root.
    fn with(&self, options: &SELinuxOptions) -> Result<Option<String>, LabelProblem> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let Some(level) = given(&options.level) else { return Ok(None) };
        // The type and the role of a process are not those of its files.
        let user = given(&options.user).unwrap_or_else(|| self.user.clone());
        let label = format!("{user}:{}:{}:{level}", self.role, self.kind);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:,".contains(&byte);
        if label.bytes().all(is_plain) { Ok(Some(label)) } else { Err(LabelProblem::NoLabel(label)) }
    }
}

/// How a node with SELinux labels persistent volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelling {
    /// The policy's label.
    pub files: FileLabel,
    /// Gate `SELinuxMount`: volumes of every access mode are mounted with a label, not those alone that are for one pod.
    pub every_mode: bool,
}

/// The label of a volume for one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountLabel {
    /// The label; empty where the pod leaves it to the runtime, or wants its files labelled one by one.
    pub label: String,
    /// Whether the volume is mounted with it, and with no other one at a time.
    pub binds: bool,
}

/// Why a pod has no one label for a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelProblem {
    /// Its options make no label.
    #[error("failed to construct SELinux label from context: {0:?} is no label")]
    NoLabel(String),
    /// Upstream's text.
    #[error("multiple SELinux labels found: {}", .0.join(","))]
    Several(Vec<String>),
}

impl Labelling {
    /// Whether a volume is mounted with its label: by its access modes.
    pub fn binds(&self, volume: &PersistentVolume) -> bool {
        self.every_mode || matches!(access_modes(volume), [mode] if mode == "ReadWriteOncePod")
    }

    /// The label of the pod's volume of this name: that of the containers that mount it.
    ///
    /// # Errors
    /// There is no such label, or more than one.
    pub fn label(&self, pod: &Pod, name: &str) -> Result<String, LabelProblem> {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let mut labels = BTreeSet::new();
        for container in mounting_containers(pod) {
            let own = container.security.and_then(|security| security.se_linux_options.as_ref());
            let options = own.or_else(|| of_pod.and_then(|security| security.se_linux_options.as_ref()));
            if container.mounts.iter().any(|mount| mount.name == name)
                && let Some(label) = options.map_or(Ok(None), |options| self.files.with(options))?
            {
                labels.insert(label);
            }
        }
        if labels.len() > 1 {
            return Err(LabelProblem::Several(labels.into_iter().collect()));
        }
        let is_recursive = of_pod.and_then(|security| security.se_linux_change_policy.as_deref()) == Some(RECURSIVE);
        Ok(labels.into_iter().next().filter(|_| !is_recursive).unwrap_or_default())
    }
}

/// Another label that a volume has, where it is mounted with one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelConflict {
    /// That of another pod which has the volume.
    OfPod(String),
    /// Nobody has it any more, and it is still staged with that one.
    Staged,
}

impl LabelConflict {
    /// Whether a volume can be mounted with this label, beside the pods that have it with theirs, where it is staged with
    /// that one.
    ///
    /// # Errors
    /// The label that is in the way.
    pub fn check<'a>(
        wanted: &str,
        of_pods: impl IntoIterator<Item = &'a str>,
        staged: Option<&str>,
    ) -> Result<(), Self> {
        if let Some(there) = of_pods.into_iter().find(|there| !is_same_label(there, wanted)) {
            return Err(Self::OfPod(there.to_owned()));
        }
        if staged.is_none_or(|there| is_same_label(there, wanted)) { Ok(()) } else { Err(Self::Staged) }
    }
}

/// The mount option of a label.
pub fn mount_option(label: &str) -> String {
    format!("context=\"{label}\"")
}

/// Whether two labels are one: the kernel writes the categories of a level in its own order, and joins neighbours.
pub fn is_same_label(one: &str, other: &str) -> bool {
    let parts = |label: &str| {
        let (rest, categories) = label.rsplit_once(':')?;
        Some((rest.to_owned(), categories_of(categories)?))
    };
    one == other || parts(one).is_some_and(|parts_of_one| Some(parts_of_one) == parts(other))
}

/// The numbers of categories such as `c1,c3.c5`; `None` for anything else.
fn categories_of(text: &str) -> Option<BTreeSet<u16>> {
    /// A policy has at most so many.
    const COUNT: u16 = 1024;
    let number = |text: &str| text.strip_prefix('c')?.parse::<u16>().ok().filter(|number| *number < COUNT);
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('.').unwrap_or((part, part));
        found.extend(number(first)?..=number(last)?);
    }
    Some(found)
}

/// The access modes of a volume.
pub fn access_modes(volume: &PersistentVolume) -> &[String] {
    volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

/// Upstream's word for the widest of a volume's access modes, in its metrics.
pub fn widest_mode(modes: &[String]) -> &'static str {
    let words =
        [("ReadWriteMany", "RWX"), ("ReadOnlyMany", "ROX"), ("ReadWriteOnce", "RWO"), ("ReadWriteOncePod", "RWOP")];
    words.iter().find(|(mode, _)| modes.iter().any(|one| one == mode)).map_or("", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labelling(every_mode: bool) -> Labelling {
        let text = "# of the policy\nprocess = \"system_u:system_r:container_t:s0\"\n\
                    file = \"system_u:object_r:container_file_t:s0\"\nro_file=\"system_u:object_r:container_ro_file_t:s0\"\n";
        Labelling { files: FileLabel::of_policy(text).expect("it names files"), every_mode }
    }

    fn pod(security: Value, containers: &[Value]) -> Pod {
        let mounts = json!([{ "name": "data", "mountPath": "/data" }]);
        let container = |security: &Value| json!({ "name": "c", "volumeMounts": mounts, "securityContext": security });
        let containers: Vec<Value> = containers.iter().map(container).collect();
        serde_json::from_value(json!({ "spec": { "securityContext": security, "containers": containers } })).unwrap()
    }

    #[test]
    fn a_policy_without_labels_for_containers_has_none() {
        for text in ["", "file = \"a:b:c:d\"", "process = \"a:b:c:d\"", "process = \"a:b:c\"\nfile = \"a:b\""] {
            assert_eq!(FileLabel::of_policy(text), None, "{text}");
        }
    }

    /// VOL-31.
    #[test]
    fn vol_31_the_label_is_that_of_all_containers_that_mount_it() {
        let level = |level: &str| json!({ "seLinuxOptions": { "level": level } });
        let several = |labels: &[&str]| {
            let whole = labels.iter().map(|level| format!("system_u:object_r:container_file_t:{level}"));
            Err(LabelProblem::Several(whole.collect()))
        };
        let one = |label: &str| Ok(label.to_owned());
        let of_files = "system_u:object_r:container_file_t:s0:c1,c2";
        let cases = [
            (json!({}), vec![json!({})], one("")),
            (level("s0:c1,c2"), vec![json!({}), json!({})], one(of_files)),
            (level("s0:c9"), vec![level("s0:c1,c2")], one(of_files)),
            (json!({}), vec![level("s0:c1"), level("s0:c2")], several(&["s0:c1", "s0:c2"])),
            // Without a level the runtime chooses one.
            (json!({ "seLinuxOptions": { "type": "spc_t" } }), vec![json!({})], one("")),
            (
                json!({ "seLinuxOptions": { "user": "u", "role": "r", "type": "t", "level": "s0:c1" } }),
                vec![json!({})],
                one("u:object_r:container_file_t:s0:c1"),
            ),
            (
                json!({ "seLinuxOptions": { "level": "s0:c1" }, "seLinuxChangePolicy": "Recursive" }),
                vec![json!({})],
                one(""),
            ),
            (
                json!({ "seLinuxOptions": { "level": "s0" }, "seLinuxChangePolicy": "MountOption" }),
                vec![json!({})],
                one("system_u:object_r:container_file_t:s0"),
            ),
        ];
        for (security, containers, expected) in cases {
            let label = labelling(false).label(&pod(security.clone(), &containers), "data");
            assert_eq!(label, expected, "{security} {containers:?}");
        }
        let other = labelling(false).label(&pod(level("s0"), &[json!({})]), "other");
        assert_eq!(other, one(""), "a volume that no container mounts");
    }

    /// VOL-31: the options of a pod become an option of a mount: none gets another one in.
    #[test]
    fn vol_31_a_level_that_is_no_level_is_refused() {
        for level in ["s0\",suid,x=\"", "s0 c1", "s0\\", "s0\nc1", "s0=c1"] {
            let security = json!({ "seLinuxOptions": { "level": level } });
            let outcome = labelling(false).label(&pod(security, &[json!({})]), "data");
            assert!(matches!(outcome, Err(LabelProblem::NoLabel(_))), "{level:?}: {outcome:?}");
        }
        assert_eq!(mount_option("a:b:c:s0:c1,c2"), r#"context="a:b:c:s0:c1,c2""#);
    }

    #[test]
    fn the_kernels_way_to_write_a_label_makes_no_other_one() {
        for (one, other, same) in [
            ("a:b:c:s0", "a:b:c:s0", true),
            ("a:b:c:s0:c2,c1", "a:b:c:s0:c1,c2", true),
            ("a:b:c:s0:c1,c2,c3", "a:b:c:s0:c1.c3", true),
            ("a:b:c:s0:c1,c2", "a:b:c:s0:c1,c3", false),
            ("a:b:c:s0:c1,c2", "a:b:d:s0:c1,c2", false),
            ("a:b:c:s0", "a:b:c:s1", false),
            ("", "a:b:c:s0", false),
            ("", "", true),
            ("a:b:c:s0:c9999", "a:b:c:s0:c9998", false),
        ] {
            assert_eq!(is_same_label(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn another_pods_label_is_in_the_way_and_so_is_one_that_stays_staged() {
        let of_pod = |label: &str| Err(LabelConflict::OfPod(label.to_owned()));
        for (of_pods, staged, expected) in [
            (vec![], None, Ok(())),
            (vec!["a:b:c:s0:c2,c1"], Some("a:b:c:s0:c1,c2"), Ok(())),
            (vec!["a:b:c:s0:c1,c2", "a:b:c:s0"], Some("a:b:c:s0"), of_pod("a:b:c:s0")),
            (vec![""], Some(""), of_pod("")),
            (vec![], Some("a:b:c:s0"), Err(LabelConflict::Staged)),
            (vec![], Some(""), Err(LabelConflict::Staged)),
        ] {
            let outcome = LabelConflict::check("a:b:c:s0:c1,c2", of_pods.clone(), staged);
            assert_eq!(outcome, expected, "{of_pods:?} {staged:?}");
        }
    }

    #[test]
    fn volumes_for_one_pod_are_mounted_with_it_and_others_where_the_gate_is_on() {
        for (modes, alone, word) in [
            (vec!["ReadWriteOncePod"], true, "RWOP"),
            (vec!["ReadWriteOnce"], false, "RWO"),
            (vec!["ReadWriteOncePod", "ReadOnlyMany"], false, "ROX"),
            (vec!["ReadWriteOnce", "ReadWriteMany"], false, "RWX"),
            (vec![], false, ""),
        ] {
            let volume = serde_json::from_value(json!({ "spec": { "accessModes": modes } })).unwrap();
            let binds = [false, true].map(|every_mode| labelling(every_mode).binds(&volume));
            assert_eq!((binds, widest_mode(access_modes(&volume))), ([alone, true], word), "{modes:?}");
        }
    }
}
