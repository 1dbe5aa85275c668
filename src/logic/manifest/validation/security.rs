//! The rules about security contexts, of pods and of containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext, Sysctl,
};
use serde_json::Value;

use super::field::{Errors, FieldPath, text};
use super::{names, paths};

/// User and group IDs end here.
const ID_MAX: i64 = i32::MAX as i64;
/// The longest name of an AppArmor profile, in bytes: a path without its end.
const PROFILE_LENGTH_MAX: usize = 4095;
const SYSCTL_LENGTH_MAX: usize = 253;

/// The pod's own context.
pub(super) fn of_pod(context: &PodSecurityContext, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    id(context.fs_group, &path.child("fsGroup"), errors);
    id(context.run_as_user, &path.child("runAsUser"), errors);
    id(context.run_as_group, &path.child("runAsGroup"), errors);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        id(Some(*group), &path.child("supplementalGroups").index(index), errors);
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    sysctls(context.sysctls.as_deref().unwrap_or_default(), spec, &path.child("sysctls"), errors);
    choice(
        context.fs_group_change_policy.as_deref(),
        &["Always", "OnRootMismatch"],
        &path.child("fsGroupChangePolicy"),
        errors,
    );
    seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
    let policies = ["Merge", "Strict"];
    choice(context.supplemental_groups_policy.as_deref(), &policies, &path.child("supplementalGroupsPolicy"), errors);
    let policies = ["MountOption", "Recursive"];
    choice(context.se_linux_change_policy.as_deref(), &policies, &path.child("seLinuxChangePolicy"), errors);
}

/// A container's context.
pub(super) fn of_container(context: &SecurityContext, host_users: bool, path: &FieldPath, errors: &mut Errors) {
    id(context.run_as_user, &path.child("runAsUser"), errors);
    id(context.run_as_group, &path.child("runAsGroup"), errors);
    if let Some(proc_mount) = context.proc_mount.as_deref() {
        choice(Some(proc_mount), &["Default", "Unmasked"], &path.child("procMount"), errors);
        if host_users && proc_mount == "Unmasked" {
            errors.invalid(&path.child("procMount"), proc_mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    if context.allow_privilege_escalation == Some(false) {
        let whole = || serde_json::to_value(context).unwrap_or(Value::Null);
        if context.privileged == Some(true) {
            errors.invalid(path, whole(), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        let mut added = context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, whole(), detail);
        }
    }
    app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
}

fn id(id: Option<i64>, path: &FieldPath, errors: &mut Errors) {
    if let Some(id) = id.filter(|id| !(0..=ID_MAX).contains(id)) {
        errors.invalid(path, id, names::not_between(0, ID_MAX));
    }
}

fn choice(value: Option<&str>, choices: &[&str], path: &FieldPath, errors: &mut Errors) {
    if let Some(value) = value.filter(|value| !choices.contains(value)) {
        errors.not_supported(path, value, choices);
    }
}

fn seccomp(profile: Option<&SeccompProfile>, path: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    match profile.type_.as_str() {
        "" => errors.required(&path.child("type"), "type is required when seccompProfile is set"),
        kind => choice(Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"], &path.child("type"), errors),
    }
    let path = path.child("localhostProfile");
    match (profile.type_ == "Localhost", &profile.localhost_profile) {
        (true, None) => errors.required(&path, "must be set when seccomp type is Localhost"),
        (true, Some(file)) => paths::descending(file, &path, errors),
        (false, Some(_)) => {
            let whole = serde_json::to_value(profile).unwrap_or(Value::Null);
            errors.invalid(&path, whole, "can only be set when seccomp type is Localhost");
        }
        (false, None) => {}
    }
}

fn app_armor(profile: Option<&AppArmorProfile>, path: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    let name_path = path.child("localhostProfile");
    let must_be_set = "must be set when AppArmor type is Localhost";
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("Localhost", None) => errors.required(&name_path, must_be_set),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&name_path, name.as_str(), "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&name_path, must_be_set);
            }
            if name.len() > PROFILE_LENGTH_MAX {
                errors.too_long(&name_path, PROFILE_LENGTH_MAX);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(&name_path, name.as_str(), "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        (other, _) => {
            errors.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}

fn sysctls(sysctls: &[Sysctl], spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(index).child("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl_name(name) {
            let form = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(
                &path,
                name,
                format!("must have at most {SYSCTL_LENGTH_MAX} characters and match regex {form}"),
            );
        } else if seen.contains(name) {
            errors.duplicate(&path, name);
        }
        let dotted = name.replace('/', ".");
        let inter_process =
            ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."].iter().any(|group| dotted.starts_with(group));
        if spec.host_network == Some(true) && dotted.starts_with("net.") {
            errors.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
        } else if spec.host_ipc == Some(true) && inter_process {
            errors.invalid(&path, name, "may not be specified when 'hostIPC' is true");
        }
        seen.insert(name);
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let is_segment = |segment: &str| {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        segment.starts_with(is_word)
            && segment.ends_with(is_word)
            && segment.chars().all(|c| is_word(c) || c == '-' || c == '_')
    };
    name.len() <= SYSCTL_LENGTH_MAX && name.split(['.', '/']).all(is_segment)
}

/// The text of an option that must be one of a few.
pub(super) fn optional_choice(value: &Option<String>, choices: &[&str], path: &FieldPath, errors: &mut Errors) {
    if value.is_some() {
        errors.one_of(path, text(value), choices);
    }
}
