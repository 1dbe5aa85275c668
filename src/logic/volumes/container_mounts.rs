//! A container's view of its pod's volumes (VOL-33, VOL-34): one entry for each of its `volumeMounts`, in order.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use super::plan::{VolumePlan, volume_plan};
use crate::logic::environment::Environment;
use crate::logic::formats::expansion::{TooLong, expand};

/// Bytes of the longest path that Linux takes, its end included.
const PATH_BYTES_MAX: usize = 4096;

/// How mounts made later are seen on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Not at all.
    None,
    /// Those of the host in the container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// One mount of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerMount {
    /// The volume behind it.
    pub volume: VolumePlan,
    /// Its place in the container's list.
    pub index: usize,
    /// Inside; absolute.
    pub container_path: String,
    /// The part of the volume that is mounted, relative to it; empty for all.
    pub sub_path: String,
    /// Whether the container may only read.
    pub read_only: bool,
    /// Whether that holds for mounts below, too.
    pub recursive_read_only: bool,
    /// See [`Propagation`].
    pub propagation: Propagation,
}

/// The container's mounts. `environment` is its finished environment, `runtime_rro` whether the runtime can make mounts
/// read-only recursively.
///
/// # Errors
/// The message of `CreateContainerConfigError`, in upstream's words.
pub fn container_mounts(
    pod: &Pod,
    container: &Container,
    environment: &Environment,
    runtime_rro: bool,
) -> Result<Vec<ContainerMount>, String> {
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let Some(volume) = volume_plan(pod, &mount.name) else {
            return Err(format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name));
        };
        mounts.push(ContainerMount {
            index,
            container_path: absolute(&mount.mount_path),
            sub_path: sub_path(mount, environment)?,
            read_only: mount.read_only.unwrap_or(false) || volume.is_read_only(),
            recursive_read_only: recursive_read_only(mount, runtime_rro)
                .map_err(|error| format!("failed to resolve recursive read-only mode: {error}"))?,
            propagation: propagation(mount)?,
            volume,
        });
    }
    Ok(mounts)
}

/// A device that a container gets from a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDevice {
    /// The volume's name in the pod.
    pub volume: String,
    /// Inside; absolute.
    pub container_path: String,
    /// Of `m`, `r` and `w`: what the container may do with it.
    pub permissions: &'static str,
}

/// The container's devices, in order (VOL-47).
///
/// # Errors
/// The message of `CreateContainerConfigError`, in upstream's words.
pub fn container_devices(pod: &Pod, container: &Container) -> Result<Vec<ContainerDevice>, String> {
    let mut devices = Vec::new();
    for device in container.volume_devices.iter().flatten() {
        let (name, path) = (&device.name, &device.device_path);
        if !path.starts_with('/') {
            return Err(format!("error DevicePath `{path}` must be an absolute path"));
        }
        let volume = volume_plan(pod, name).ok_or_else(|| no_device(name, &container.name))?;
        let permissions = if volume.is_read_only() { "r" } else { "mrw" };
        devices.push(ContainerDevice { volume: name.clone(), container_path: path.clone(), permissions });
    }
    Ok(devices)
}

/// Upstream's text for a device without a volume behind it.
pub fn no_device(volume: &str, container: &str) -> String {
    format!("cannot find volume {volume:?} to pass into container {container:?}")
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn sub_path(mount: &VolumeMount, environment: &Environment) -> Result<String, String> {
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    let path = match expression {
        "" => mount.sub_path.clone().unwrap_or_default(),
        expression => expanded(expression, environment)?,
    };
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    if path.contains('\0') {
        return Err("unable to provision SubPath: must not contain NUL".to_owned());
    }
    Ok(path)
}

/// Every variable must have a value: a path with a hole in it would be another path.
fn expanded(expression: &str, environment: &Environment) -> Result<String, String> {
    let missing = std::cell::RefCell::new(BTreeSet::new());
    let lookup = |name: &[u8]| match std::str::from_utf8(name).ok().and_then(|name| environment.get(name)) {
        Some(value) if !value.is_empty() => Some(value),
        _ => {
            missing.borrow_mut().insert(String::from_utf8_lossy(name).into_owned());
            None
        }
    };
    let path = expand(expression.as_bytes(), PATH_BYTES_MAX, lookup);
    let missing: Vec<String> = missing.into_inner().into_iter().collect();
    if !missing.is_empty() {
        return Err(format!("missing value for {}", missing.join(", ")));
    }
    let path = path.map_err(|TooLong| "subPathExpr is longer than a path may be once expanded".to_owned())?;
    String::from_utf8(path).map_err(|_| "subPathExpr is not valid UTF-8 once expanded".to_owned())
}

fn propagation(mount: &VolumeMount) -> Result<Propagation, String> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(Propagation::None),
        Some("HostToContainer") => Ok(Propagation::HostToContainer),
        Some("Bidirectional") => Ok(Propagation::Bidirectional),
        Some(other) => Err(format!("invalid MountPropagation mode: {other:?}")),
    }
}

fn recursive_read_only(mount: &VolumeMount, runtime_rro: bool) -> Result<bool, String> {
    let name = &mount.name;
    let mode = mount.recursive_read_only.as_deref().unwrap_or("Disabled");
    if mode == "Disabled" {
        return Ok(false);
    }
    if !mount.read_only.unwrap_or(false) {
        return Err(format!("volume {name:?} requested recursive read-only mode, but it is not read-only"));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|propagation| *propagation != "None") {
        return Err(format!(
            "volume {name:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
        ));
    }
    match mode {
        "IfPossible" => Ok(runtime_rro),
        "Enabled" if runtime_rro => Ok(true),
        "Enabled" => {
            Err(format!("volume {name:?} requested recursive read-only mode, but it is not supported by the runtime"))
        }
        other => Err(format!("unknown recursive read-only mode {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mounts(mount: Value, variables: &[(&str, &str)], rro: bool) -> Result<ContainerMount, String> {
        let mut wanted = json!({ "name": "v", "mountPath": "/v" });
        for (key, value) in mount.as_object().unwrap() {
            wanted[key] = value.clone();
        }
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "containers": [{ "name": "c", "volumeMounts": [wanted] }],
            "volumes": [
                { "name": "v", "emptyDir": {} },
                { "name": "h", "hostPath": { "path": "/x" } },
                { "name": "s", "secret": { "secretName": "s" } },
            ],
        } }))
        .unwrap();
        let mut environment = Environment::default();
        for (name, value) in variables {
            environment.set(name, value.as_bytes().to_vec());
        }
        let container = &pod.spec.as_ref().unwrap().containers[0];
        container_mounts(&pod, container, &environment, rro).map(|mut mounts| mounts.remove(0))
    }

    #[test]
    fn a_volume_that_is_not_there_is_named() {
        let error = mounts(json!({ "name": "nope" }), &[], false).unwrap_err();
        assert_eq!(error, "cannot find volume \"nope\" to mount into container \"c\"");
    }

    /// VOL-31, SEC-06.
    #[test]
    fn read_only_is_the_mounts_wish_or_the_volumes_nature() {
        let read_only = |mount| mounts(mount, &[], false).unwrap().read_only;
        assert!(!read_only(json!({})));
        assert!(read_only(json!({ "readOnly": true })));
        assert!(read_only(json!({ "name": "s", "readOnly": false })));
        assert_eq!(mounts(json!({ "mountPath": "rel" }), &[], false).unwrap().container_path, "/rel");
    }

    /// VOL-33, SEC-02.
    #[test]
    fn sec_02_sub_paths_are_expanded_and_checked() {
        let variables = [("POD", "web-0"), ("EMPTY", ""), ("UP", "../x"), ("ABS", "/etc")];
        let cases = [
            (json!({ "subPath": "a/b" }), Ok("a/b")),
            (json!({ "subPathExpr": "$(POD)/logs" }), Ok("web-0/logs")),
            (json!({ "subPathExpr": "$$(POD)" }), Ok("$(POD)")),
            (json!({ "subPathExpr": "$(NONE)/$(EMPTY)/$(ALSO)" }), Err("missing value for ALSO, EMPTY, NONE")),
            (json!({ "subPath": "/etc" }), Err("error SubPath `/etc` must not be an absolute path")),
            (json!({ "subPathExpr": "$(ABS)" }), Err("error SubPath `/etc` must not be an absolute path")),
            (json!({ "subPathExpr": "$(UP)" }), Err("unable to provision SubPath `../x`: must not contain '..'")),
        ];
        for (mount, expected) in cases {
            let found = mounts(mount.clone(), &variables, false).map(|mount| mount.sub_path);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{mount}");
        }
    }

    /// VOL-34.
    #[test]
    fn recursive_read_only_needs_the_runtime_and_a_plain_read_only_mount() {
        let rro = |mode: &str, read_only: bool, propagation: &str, runtime: bool| {
            let mount = json!({
                "recursiveReadOnly": mode, "readOnly": read_only, "mountPropagation": propagation,
            });
            mounts(mount, &[], runtime).map(|mount| mount.recursive_read_only)
        };
        assert_eq!(rro("Disabled", false, "None", true), Ok(false));
        assert_eq!(rro("IfPossible", true, "None", false), Ok(false));
        assert_eq!(rro("IfPossible", true, "None", true), Ok(true));
        assert_eq!(rro("Enabled", true, "None", true), Ok(true));
        for (mode, read_only, propagation, runtime) in [
            ("Enabled", true, "None", false),
            ("Enabled", false, "None", true),
            ("IfPossible", true, "HostToContainer", true),
        ] {
            let error = rro(mode, read_only, propagation, runtime).unwrap_err();
            assert!(error.starts_with("failed to resolve recursive read-only mode: volume \"v\""), "{error}");
        }
    }

    /// VOL-47.
    #[test]
    fn devices_may_be_written_unless_their_claim_says_otherwise() {
        let devices = |device: Value| {
            let pod: Pod = serde_json::from_value(json!({ "spec": {
                "containers": [{ "name": "c", "volumeDevices": [device] }],
                "volumes": [
                    { "name": "w", "persistentVolumeClaim": { "claimName": "a" } },
                    { "name": "r", "persistentVolumeClaim": { "claimName": "a", "readOnly": true } },
                ],
            } }))
            .unwrap();
            let devices = container_devices(&pod, &pod.spec.as_ref().unwrap().containers[0]);
            devices.map(|mut devices| devices.remove(0)).map(|device| (device.container_path, device.permissions))
        };
        assert_eq!(devices(json!({ "name": "w", "devicePath": "/dev/x" })), Ok(("/dev/x".into(), "mrw")));
        assert_eq!(devices(json!({ "name": "r", "devicePath": "/dev/x" })), Ok(("/dev/x".into(), "r")));
        let relative = devices(json!({ "name": "w", "devicePath": "dev/x" }));
        assert_eq!(relative, Err("error DevicePath `dev/x` must be an absolute path".into()));
        let missing = devices(json!({ "name": "n", "devicePath": "/dev/x" }));
        assert_eq!(missing, Err("cannot find volume \"n\" to pass into container \"c\"".into()));
    }

    /// VOL-34.
    #[test]
    fn propagation_is_translated() {
        let of = |mode: &str| mounts(json!({ "mountPropagation": mode }), &[], false).map(|mount| mount.propagation);
        assert_eq!(of("None"), Ok(Propagation::None));
        assert_eq!(of("HostToContainer"), Ok(Propagation::HostToContainer));
        assert_eq!(of("Bidirectional"), Ok(Propagation::Bidirectional));
        assert_eq!(of("Sideways"), Err("invalid MountPropagation mode: \"Sideways\"".into()));
    }
}
