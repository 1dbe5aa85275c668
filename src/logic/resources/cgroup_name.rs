//! Names of the agent's cgroups, and what they are called by each driver.
//!
//! A name is a list of components below the root: `kubepods`, `burstable`, `pod<uid>`. With the driver `cgroupfs` they
//! are folders; with `systemd` they are slices, which spell out their parents. Pure; owned by nobody, keeps nothing.
//! Pod UIDs come from outside and are checked here before they become part of a path.

use std::fmt;

use super::QosClass;
use crate::logic::model::ids::PodUid;

/// The cgroup that holds all pods; upstream's `defaultNodeAllocatableCgroupName`.
const KUBEPODS: &str = "kubepods";
/// The beginning of pod cgroups' names.
const POD_PREFIX: &str = "pod";
/// Ending of a slice's name.
const SLICE_SUFFIX: &str = ".slice";
/// Longest component taken, in bytes: a slice spells out its parents, and unit names end at 255.
const COMPONENT_BYTES_MAX: usize = 128;

/// The creator of cgroups: configuration `cgroupDriver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CgroupDriver {
    /// The agent itself, in the cgroup file system.
    Cgroupfs,
    /// systemd, asked over D-Bus.
    Systemd,
}

impl fmt::Display for CgroupDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        })
    }
}

/// A text that cannot be part of a cgroup's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid component {component:?} of a cgroup name")]
pub struct InvalidComponent {
    /// The refused text.
    pub component: String,
}

/// A cgroup, named apart from any driver; upstream's `CgroupName`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupName(Vec<String>);

impl CgroupName {
    /// The root of the hierarchy.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// Reads a folder's path, such as the configuration's `cgroupRoot`: `/`, `/kubelet`, or nothing.
    ///
    /// # Errors
    /// A component that leads elsewhere (`..`) or that no file system takes.
    pub fn from_cgroupfs_path(path: &str) -> Result<Self, InvalidComponent> {
        let components = path.split('/').filter(|component| !component.is_empty() && *component != ".");
        components.map(|component| check(component, |c| !c.is_control())).collect::<Result<_, _>>().map(Self)
    }

    /// Reads a slice's path as the kernel shows it: its last folder spells out the rest.
    ///
    /// # Errors
    /// A last folder that is no slice, or has an invalid component.
    pub fn from_systemd_path(path: &str) -> Result<Self, InvalidComponent> {
        let unit = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if unit.is_empty() || unit == "-.slice" {
            return Ok(Self::root());
        }
        let Some(name) = unit.strip_suffix(SLICE_SUFFIX) else {
            return Err(InvalidComponent { component: unit.to_owned() });
        };
        let components = name.split('-').map(|part| check(&part.replace('_', "-"), is_plain));
        components.collect::<Result<_, _>>().map(Self)
    }

    /// Reads the name of a cgroup of the host, as the configuration spells it for a driver. For systemd the last folder
    /// counts, with or without the ending `.slice`, as upstream's `ParseSystemdToCgroupName`.
    ///
    /// # Errors
    /// As [`Self::from_path`].
    pub fn from_setting(text: &str, driver: CgroupDriver) -> Result<Self, InvalidComponent> {
        let unit = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        match driver {
            CgroupDriver::Systemd if !unit.is_empty() && !unit.ends_with(SLICE_SUFFIX) => {
                Self::from_systemd_path(&format!("{unit}{SLICE_SUFFIX}"))
            }
            _ => Self::from_path(text, driver),
        }
    }

    /// The components as Go prints a list of texts: `["kubepods" "burstable"]`. Upstream's messages have them so.
    pub fn quoted(&self) -> String {
        let quoted: Vec<_> = self.0.iter().map(|component| format!("{component:?}")).collect();
        format!("[{}]", quoted.join(" "))
    }

    /// Reads the path that a driver uses.
    ///
    /// # Errors
    /// As [`Self::from_cgroupfs_path`] and [`Self::from_systemd_path`].
    pub fn from_path(path: &str, driver: CgroupDriver) -> Result<Self, InvalidComponent> {
        match driver {
            CgroupDriver::Cgroupfs => Self::from_cgroupfs_path(path),
            CgroupDriver::Systemd => Self::from_systemd_path(path),
        }
    }

    /// The cgroup of this component below this one.
    ///
    /// # Errors
    /// A component with anything but ASCII letters, digits, `-`, `.` and `:`, one that leads elsewhere, or a too long one.
    /// `_` is among the refused: it stands for `-` in slices, and nobody could tell the two apart again.
    pub fn child(&self, component: &str) -> Result<Self, InvalidComponent> {
        let component = check(component, is_plain)?;
        Ok(Self(self.0.iter().cloned().chain([component]).collect()))
    }

    /// The components, from the top.
    pub fn components(&self) -> &[String] {
        &self.0
    }

    /// The cgroup above, if it is not the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, above)| Self(above.to_vec()))
    }

    /// The path that a driver uses, from the root of the hierarchy.
    pub fn path(&self, driver: CgroupDriver) -> String {
        format!("/{}", self.folders(driver).join("/"))
    }

    /// The folders on the way to it under a driver, from the top.
    pub fn folders(&self, driver: CgroupDriver) -> Vec<String> {
        match driver {
            CgroupDriver::Cgroupfs => self.0.clone(),
            CgroupDriver::Systemd => (1..=self.0.len()).map(|count| slice_name(&self.0[..count])).collect(),
        }
    }

    /// The systemd unit: `kubepods-burstable.slice`; the root is `-.slice`.
    pub fn slice(&self) -> String {
        slice_name(&self.0)
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path(CgroupDriver::Cgroupfs))
    }
}

impl fmt::Debug for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn slice_name(components: &[String]) -> String {
    let escaped: Vec<_> = components.iter().map(|component| component.replace('-', "_")).collect();
    if escaped.is_empty() { "-.slice".to_owned() } else { format!("{}{SLICE_SUFFIX}", escaped.join("-")) }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | ':')
}

fn check(component: &str, allowed: fn(char) -> bool) -> Result<String, InvalidComponent> {
    let leads_elsewhere = matches!(component, "" | "." | "..");
    if leads_elsewhere || component.len() > COMPONENT_BYTES_MAX || !component.chars().all(allowed) {
        return Err(InvalidComponent { component: component.chars().take(COMPONENT_BYTES_MAX).collect() });
    }
    Ok(component.to_owned())
}

/// Where the agent's cgroups are: configuration `cgroupRoot` and `cgroupsPerQOS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupTree {
    pods: CgroupName,
    per_qos: bool,
}

impl CgroupTree {
    /// The tree below `cgroup_root`. Without `per_qos` pods have no cgroups of their own.
    ///
    /// # Errors
    /// A root that is no path.
    pub fn new(cgroup_root: &str, per_qos: bool) -> Result<Self, InvalidComponent> {
        let root = CgroupName::from_cgroupfs_path(cgroup_root)?;
        Ok(Self { pods: if per_qos { root.child(KUBEPODS)? } else { root }, per_qos })
    }

    /// Whether pods have cgroups of their own.
    pub fn per_qos(&self) -> bool {
        self.per_qos
    }

    /// The cgroup that holds all pods: `kubepods`, or the root when pods have none.
    pub fn pods(&self) -> &CgroupName {
        &self.pods
    }

    /// The cgroup that holds the pods of a class. Guaranteed pods have no tier of their own.
    pub fn tier(&self, class: QosClass) -> CgroupName {
        let tier = match class {
            QosClass::Guaranteed => return self.pods.clone(),
            QosClass::Burstable => "burstable",
            QosClass::BestEffort => "besteffort",
        };
        if self.per_qos { self.pods.child(tier).expect("a plain name") } else { self.pods.clone() }
    }

    /// A pod's cgroup; the tree's root when pods have none.
    ///
    /// # Errors
    /// A UID that cannot be part of a path.
    pub fn pod(&self, uid: &PodUid, class: QosClass) -> Result<CgroupName, InvalidComponent> {
        if !self.per_qos {
            return Ok(self.pods.clone());
        }
        // Checked apart from its prefix: an empty UID, or one of dots, is none.
        check(uid.as_str(), is_plain)?;
        self.tier(class).child(&format!("{POD_PREFIX}{uid}"))
    }

    /// The runtime interface's `cgroup_parent` of a pod; empty when pods have no cgroups of their own.
    ///
    /// # Errors
    /// A UID that cannot be part of a path.
    pub fn cgroup_parent(
        &self,
        uid: &PodUid,
        class: QosClass,
        driver: CgroupDriver,
    ) -> Result<String, InvalidComponent> {
        if self.per_qos { Ok(self.pod(uid, class)?.path(driver)) } else { Ok(String::new()) }
    }

    /// The pod that a cgroup belongs to, if it is a pod's.
    pub fn pod_uid(&self, name: &CgroupName) -> Option<PodUid> {
        let (last, above) = name.components().split_last()?;
        let tiers = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
        let in_tier = self.per_qos && tiers.iter().any(|class| self.tier(*class).components() == above);
        let uid = last.strip_prefix(POD_PREFIX).filter(|_| in_tier)?;
        check(uid, is_plain).ok().map(PodUid::from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];

    /// RES-01, RES-02.
    #[test]
    fn every_level_has_its_path_under_both_drivers() {
        let tree = CgroupTree::new("/", true).expect("a path");
        let uid = PodUid::from("1234-abcd-5678");
        let pod = |class| tree.pod(&uid, class).expect("a plain uid");
        let cases = [
            (CgroupName::root(), "/", "/", "-.slice"),
            (tree.pods().clone(), "/kubepods", "/kubepods.slice", "kubepods.slice"),
            (
                tree.tier(QosClass::Burstable),
                "/kubepods/burstable",
                "/kubepods.slice/kubepods-burstable.slice",
                "kubepods-burstable.slice",
            ),
            (
                tree.tier(QosClass::BestEffort),
                "/kubepods/besteffort",
                "/kubepods.slice/kubepods-besteffort.slice",
                "kubepods-besteffort.slice",
            ),
            (tree.tier(QosClass::Guaranteed), "/kubepods", "/kubepods.slice", "kubepods.slice"),
            (
                pod(QosClass::Guaranteed),
                "/kubepods/pod1234-abcd-5678",
                "/kubepods.slice/kubepods-pod1234_abcd_5678.slice",
                "kubepods-pod1234_abcd_5678.slice",
            ),
            (
                pod(QosClass::BestEffort),
                "/kubepods/besteffort/pod1234-abcd-5678",
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1234_abcd_5678.slice",
                "kubepods-besteffort-pod1234_abcd_5678.slice",
            ),
        ];
        for (name, cgroupfs, systemd, slice) in cases {
            assert_eq!(name.path(CgroupDriver::Cgroupfs), cgroupfs);
            assert_eq!(name.path(CgroupDriver::Systemd), systemd);
            assert_eq!(name.slice(), slice);
        }
    }

    /// RES-03.
    #[test]
    fn a_root_of_ones_own_comes_first() {
        for (root, cgroupfs, systemd) in [
            ("", "/kubepods", "/kubepods.slice"),
            ("/kubelet", "/kubelet/kubepods", "/kubelet.slice/kubelet-kubepods.slice"),
            ("a/b-c/", "/a/b-c/kubepods", "/a.slice/a-b_c.slice/a-b_c-kubepods.slice"),
        ] {
            let tree = CgroupTree::new(root, true).expect("a path");
            assert_eq!(tree.pods().path(CgroupDriver::Cgroupfs), cgroupfs, "{root:?}");
            assert_eq!(tree.pods().path(CgroupDriver::Systemd), systemd, "{root:?}");
        }
        for root in ["/..", "/a/../b", "/a\nb", "/a/b\0"] {
            assert!(CgroupTree::new(root, true).is_err(), "{root:?}");
        }
    }

    /// RES-03.
    #[test]
    fn without_cgroups_per_class_pods_have_none() {
        let tree = CgroupTree::new("/kubelet", false).expect("a path");
        let uid = PodUid::from("u");
        for class in CLASSES {
            assert_eq!(tree.tier(class).to_string(), "/kubelet");
            assert_eq!(tree.pod(&uid, class).expect("no path needed").to_string(), "/kubelet");
            assert_eq!(tree.cgroup_parent(&uid, class, CgroupDriver::Systemd), Ok(String::new()));
        }
        assert_eq!(tree.pod_uid(&CgroupName::from_cgroupfs_path("/kubelet/podu").expect("a path")), None);
    }

    #[test]
    fn the_runtime_gets_the_parent_in_its_drivers_form() {
        let tree = CgroupTree::new("/", true).expect("a path");
        let uid = PodUid::from("a-b");
        let of = |class, driver| tree.cgroup_parent(&uid, class, driver).expect("a plain uid");
        assert_eq!(of(QosClass::Guaranteed, CgroupDriver::Cgroupfs), "/kubepods/poda-b");
        assert_eq!(
            of(QosClass::Burstable, CgroupDriver::Systemd),
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"
        );
    }

    #[test]
    fn a_uid_that_leads_elsewhere_is_refused() {
        let tree = CgroupTree::new("/", true).expect("a path");
        let long = "a".repeat(129);
        for uid in ["", ".", "..", "../x", "a/b", "a_b", "a b", "a\0", "a\n", "a@b", "a\\x2d", "é", &long] {
            assert!(tree.pod(&PodUid::from(uid), QosClass::Burstable).is_err(), "{uid:?}");
        }
    }

    #[test]
    fn only_children_of_the_tiers_are_pods() {
        let tree = CgroupTree::new("/", true).expect("a path");
        let cases = [
            ("/kubepods/podx", Some("x")),
            ("/kubepods/burstable/poda-b", Some("a-b")),
            ("/kubepods/besteffort/podpod1", Some("pod1")),
            ("/kubepods/burstable", None),
            ("/kubepods/burstable/pod", None),
            ("/kubepods/burstable/x", None),
            ("/kubepods/burstable/podx/y", None),
            ("/podx", None),
            ("/other/podx", None),
            ("/", None),
        ];
        for (path, uid) in cases {
            let name = CgroupName::from_cgroupfs_path(path).expect("a path");
            assert_eq!(tree.pod_uid(&name).as_ref().map(PodUid::as_str), uid, "{path}");
        }
        for path in ["/kubepods.slice/run.scope", "/kubepods.slice/kubepods--x.slice", "/.slice"] {
            assert!(CgroupName::from_systemd_path(path).is_err(), "{path}");
        }
    }

    /// RES-16.
    #[test]
    fn res_16_a_cgroup_of_the_host_is_named_in_its_drivers_form() {
        for (text, driver, quoted, path) in [
            ("/kube", CgroupDriver::Cgroupfs, "[\"kube\"]", "/kube"),
            ("a/b", CgroupDriver::Cgroupfs, "[\"a\" \"b\"]", "/a/b"),
            ("/", CgroupDriver::Cgroupfs, "[]", "/"),
            ("/system.slice", CgroupDriver::Cgroupfs, "[\"system.slice\"]", "/system.slice"),
            ("/kube.slice", CgroupDriver::Systemd, "[\"kube\"]", "/kube.slice"),
            ("kube", CgroupDriver::Systemd, "[\"kube\"]", "/kube.slice"),
            ("/a.slice/a-b_c.slice", CgroupDriver::Systemd, "[\"a\" \"b-c\"]", "/a.slice/a-b_c.slice"),
            ("a-b_c.slice", CgroupDriver::Systemd, "[\"a\" \"b-c\"]", "/a.slice/a-b_c.slice"),
        ] {
            let name = CgroupName::from_setting(text, driver).expect("a name");
            assert_eq!((name.quoted().as_str(), name.path(driver).as_str()), (quoted, path), "{text}");
        }
        assert!(CgroupName::from_setting("/../x", CgroupDriver::Cgroupfs).is_err());
        assert!(CgroupName::from_setting("a--b", CgroupDriver::Systemd).is_err());
    }

    proptest! {
        #[test]
        fn a_pods_cgroup_is_found_again_under_both_drivers(
            uid in "[a-zA-Z0-9:.-]{1,64}",
            class in prop::sample::select(&CLASSES[..]),
            root in "(/[a-z0-9-]{1,8}){0,3}",
        ) {
            prop_assume!(uid != "." && uid != "..");
            let tree = CgroupTree::new(&root, true).expect("a path");
            let name = tree.pod(&PodUid::from(uid.as_str()), class).expect("a plain uid");
            for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
                let path = name.path(driver);
                let read = CgroupName::from_path(&path, driver).expect("a path of ours");
                prop_assert_eq!(tree.pod_uid(&read), Some(PodUid::from(uid.as_str())));
                prop_assert!(!path.split('/').any(|folder| folder == ".."));
            }
        }

        #[test]
        fn no_uid_makes_a_path_that_leaves_its_tier(uid in "\\PC{0,20}") {
            let tree = CgroupTree::new("/", true).expect("a path");
            if let Ok(name) = tree.pod(&PodUid::from(uid.as_str()), QosClass::Burstable) {
                prop_assert_eq!(name.components().len(), 3);
                prop_assert_eq!(name.path(CgroupDriver::Cgroupfs).split('/').count(), 4);
            }
        }
    }
}
