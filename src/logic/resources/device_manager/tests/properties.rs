//! Rules that hold for all pods and devices.

use proptest::prelude::*;

use super::*;

proptest! {
    /// A device is never with two pods, and a pod has as many as it asks for, or none.
    #[test]
    fn no_device_is_given_twice(
        places in prop::collection::vec(0_u8..4, 1..12),
        wanted in prop::collection::vec((1_usize..4, any::<bool>()), 1..12),
        aligned in any::<bool>(),
    ) {
        let texts: Vec<String> = places.iter().enumerate().map(|(at, place)| match place {
            0 => format!("d{at}"),
            1 => format!("d{at}@0"),
            2 => format!("d{at}@1"),
            _ => format!("d{at}@0+1"),
        }).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let kind = if aligned { PolicyKind::BestEffort } else { PolicyKind::None };
        let mut managers = with(kind, &gpus(&texts));
        let mut owned: BTreeMap<String, String> = BTreeMap::new();
        for (number, (count, leaves)) in wanted.into_iter().enumerate() {
            let uid = format!("pod-{number}");
            let pod = user(&uid, count);
            let free = texts.len() - owned.len();
            match admit(&mut managers, &pod) {
                Placement::Call { taken, .. } => {
                    prop_assert_eq!(taken[0].1.len(), count);
                    for id in &taken[0].1 {
                        prop_assert_eq!(owned.insert(id.clone(), uid.clone()), None, "{} has two owners", id);
                    }
                    managers.grant(&uid_of(&pod), &taken[0].0, DeviceGrant::default());
                }
                Placement::Refused(_) => prop_assert!(free < count),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
            if leaves {
                owned.retain(|_, owner| *owner != uid);
                let active = owned.values().map(|uid| PodUid::from(uid.as_str())).collect();
                managers.keep_only(&active);
            }
        }
    }
}

/// Ten thousand devices, most of them taken: an admission stays an admission.
#[test]
fn ten_thousand_devices_are_no_burden() {
    let texts: Vec<String> = (0..10_000).map(|at| format!("device-{at}@{}", at % 2)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut managers = with(PolicyKind::Restricted, &gpus(&texts));
    for number in 0..40 {
        let ids = given(&mut managers, &user(&format!("pod-{number}"), 100));
        assert_eq!(ids.split(',').count(), 100);
    }
    let bytes = managers.files().devices.expect("a file");
    let next = self::managers(PolicyKind::Restricted).restored(&managers.files(), ToOwned::to_owned).expect("restored");
    assert_eq!(next.allocations().containers.len(), 40, "{} bytes", bytes.len());
}
