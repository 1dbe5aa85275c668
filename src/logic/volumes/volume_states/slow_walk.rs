//! News of a change of files' ownership that takes long (VOL-29).

use std::time::Duration;

use crate::logic::volumes::order::VolumePlace;

/// How long it takes before anything is said of it.
const FIRST_AFTER: Duration = Duration::from_secs(30);
/// From one word about it to the next.
const PERIOD: Duration = Duration::from_secs(60);
/// Where upstream explains what can be done.
const ADVICE: &str = "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods";
/// The message in the pod's conditions: the same as long as it goes on.
pub const DOING: &str =
    "its files are given to the pod's fsGroup; fsGroupChangePolicy OnRootMismatch does so only once";

/// The message of the next Event `VolumePermissionChangeInProgress`, once it is due: the walk has gone on for `took`, has
/// seen `files` files, and `told` Events tell of it already.
pub fn progress_event(place: &VolumePlace, took: Duration, files: u64, told: u32) -> Option<String> {
    if took < FIRST_AFTER + PERIOD * told {
        return None;
    }
    let path = format!("{}/volumes/{}/{}", place.uid, place.plugin, place.name);
    Some(match told {
        0 => format!(
            "Setting volume ownership for {path} is taking longer than expected, consider using OnRootMismatch - {ADVICE}"
        ),
        _ => format!("Setting volume ownership for {path}, processed {files} files."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::volumes::order::plugin;

    /// VOL-29, PAIN-41.
    #[test]
    fn a_long_walk_is_told_after_half_a_minute_and_then_each_minute() {
        let place = VolumePlace { uid: "u".into(), plugin: plugin::LOCAL.into(), name: "pv".into(), is_device: false };
        let at = |seconds, told| progress_event(&place, Duration::from_secs(seconds), 7, told);
        assert_eq!((at(29, 0), at(89, 1), at(149, 2)), (None, None, None));
        let first = at(30, 0).expect("due");
        assert!(first.starts_with(
            "Setting volume ownership for u/volumes/kubernetes.io~local-volume/pv is taking longer than expected, \
             consider using OnRootMismatch - https://"
        ));
        let next = "Setting volume ownership for u/volumes/kubernetes.io~local-volume/pv, processed 7 files.";
        assert_eq!((at(90, 1).as_deref(), at(150, 2).as_deref()), (Some(next), Some(next)));
    }
}
