//! CPU time that a container may save up and use at once (`cpu.max.burst`), by an annotation of our own.
//!
//! Pure. A quota cuts CPU time every period, also of a container that used little before. The kernel (5.14 and newer, cgroup
//! v2) can let it keep what it did not use, up to a bound. The annotation [`CPU_BURST_ANNOTATION`] asks for that bound as a
//! percentage of the quota. It holds for each container of the pod that has a CPU limit, and for the pod as a whole. The
//! node says how much it allows at most; by default it allows nothing.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::resources::ResourceOptions;

/// The pod's annotation: a whole percentage of the CPU limits, 0 to 100, with or without `%`.
pub const CPU_BURST_ANNOTATION: &str = "podwright.io/cpu-burst";
/// The file of a cgroup, in microseconds. The kernel takes no more than the quota.
const FILE: &str = "cpu.max.burst";
/// The kernel's bound, in percent of the quota.
const PERCENT_MAX: u8 = 100;

/// How much the node allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuBurst {
    /// Nothing: `--cpu-burst-max-percent` is 0.
    #[default]
    Off,
    /// The host has cgroup v1, which cannot do it.
    CgroupV1,
    /// The kernel is older than 5.14.
    OldKernel,
    /// So many percent of a quota, 1 to 100.
    Percent(u8),
}

/// The annotation says nothing that can be followed: the pod is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid annotation {CPU_BURST_ANNOTATION}: {value:?} is no whole percentage from 0 to 100")]
pub struct InvalidCpuBurst {
    /// Its value, cut at 64 characters.
    pub value: String,
}

/// The annotation is followed in part, or not at all: what the pod's Event and `explain` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuBurstNotice {
    /// Not at all.
    Ignored(CpuBurst),
    /// The node allows less.
    Bounded {
        /// Asked for, in percent.
        asked: u8,
        /// Allowed, in percent.
        allowed: u8,
    },
}

impl fmt::Display for CpuBurstNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "annotation {CPU_BURST_ANNOTATION} ")?;
        match self {
            Self::Ignored(CpuBurst::CgroupV1) => {
                f.write_str("is ignored: the host has cgroup v1, which has no CPU burst")
            }
            Self::Ignored(CpuBurst::OldKernel) => f.write_str("is ignored: CPU burst needs Linux 5.14 or newer"),
            Self::Ignored(_) => f.write_str("is ignored: this node allows no CPU burst (--cpu-burst-max-percent is 0)"),
            Self::Bounded { asked, allowed } => {
                write!(f, "asks for {asked}%, this node allows {allowed}% (--cpu-burst-max-percent)")
            }
        }
    }
}

/// The pod's wish, in percent; `None` without the annotation, and for 0.
///
/// # Errors
/// A value that is no percentage.
pub fn asked_cpu_burst(pod: &Pod) -> Result<Option<u8>, InvalidCpuBurst> {
    let Some(value) = pod.metadata.annotations.as_ref().and_then(|all| all.get(CPU_BURST_ANNOTATION)) else {
        return Ok(None);
    };
    let digits = value.strip_suffix('%').unwrap_or(value);
    let is_plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u8>() {
        Ok(0) if is_plain => Ok(None),
        Ok(percent) if is_plain && percent <= PERCENT_MAX => Ok(Some(percent)),
        _ => Err(InvalidCpuBurst { value: value.chars().take(64).collect() }),
    }
}

/// The words about the pod's wish; `None` when it is followed whole, or there is none.
pub fn cpu_burst_notice(pod: &Pod, allowed: CpuBurst) -> Option<CpuBurstNotice> {
    let asked = asked_cpu_burst(pod).ok()??;
    match allowed {
        CpuBurst::Percent(allowed) if asked <= allowed => None,
        CpuBurst::Percent(allowed) => Some(CpuBurstNotice::Bounded { asked, allowed }),
        other => Some(CpuBurstNotice::Ignored(other)),
    }
}

/// The burst of a cgroup of the pod with this quota, in microseconds; nothing without a quota.
pub(super) fn burst_unified(pod: &Pod, quota: i64, options: &ResourceOptions) -> BTreeMap<String, String> {
    let CpuBurst::Percent(allowed) = options.cpu_burst else { return BTreeMap::new() };
    let asked = asked_cpu_burst(pod).unwrap_or(None);
    let burst = asked.map(|asked| quota.saturating_mul(i64::from(asked.min(allowed))) / 100);
    burst.filter(|burst| *burst > 0).map(|burst| (FILE.to_owned(), burst.to_string())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod};
    use crate::logic::resources::{NodeMemory, container_resources, pod_cgroup_settings};

    fn asking(value: &str, requests: &str, limits: &str) -> Pod {
        let mut pod = pod(vec![container("a", requests, limits), container("b", requests, limits)], vec![]);
        pod.metadata.annotations = Some([(CPU_BURST_ANNOTATION.to_owned(), value.to_owned())].into());
        pod
    }

    fn options(cpu_burst: CpuBurst) -> ResourceOptions {
        ResourceOptions { cpu_burst, ..ResourceOptions::default() }
    }

    #[test]
    fn a_wish_is_a_whole_percentage_and_anything_else_is_refused_by_name() {
        for (value, percent) in [("0", None), ("0%", None), ("1", Some(1)), ("50%", Some(50)), ("100", Some(100))] {
            assert_eq!(asked_cpu_burst(&asking(value, "", "")), Ok(percent), "{value}");
        }
        for value in ["", "%", "101", "-1", "+5", "1.5", "50 %", "50%%", "all", "0x10", "1000", "５"] {
            let error = asked_cpu_burst(&asking(value, "", "")).expect_err(value);
            let expected =
                format!("invalid annotation podwright.io/cpu-burst: {value:?} is no whole percentage from 0 to 100");
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(asked_cpu_burst(&pod(vec![], vec![])), Ok(None));
    }

    #[test]
    fn containers_and_their_pod_get_a_part_of_their_quotas() {
        let file = |percent: i64| Some(percent.to_string());
        for (value, allowed, of_container, of_pod) in [
            ("50", CpuBurst::Percent(100), file(25_000), file(50_000)),
            ("50", CpuBurst::Percent(20), file(10_000), file(20_000)),
            ("0", CpuBurst::Percent(20), None, None),
            ("50", CpuBurst::Off, None, None),
            ("50", CpuBurst::CgroupV1, None, None),
            ("nonsense", CpuBurst::Percent(20), None, None),
        ] {
            let (pod, options) = (asking(value, "cpu=100m,memory=1Gi", "cpu=500m,memory=1Gi"), options(allowed));
            let one = &pod.spec.as_ref().expect("a spec").containers[0];
            let node = NodeMemory { capacity_bytes: 1 << 33 };
            let found = container_resources(&pod, one, &node, false, &options).unified;
            assert_eq!(found.get(FILE), of_container.as_ref(), "{value} {allowed:?}");
            assert_eq!(pod_cgroup_settings(&pod, false, &options).unified.get(FILE), of_pod.as_ref(), "{value}");
            // Nothing is saved up of what has no limit.
            let exclusive = container_resources(&pod, one, &node, true, &options).unified;
            assert_eq!(
                (exclusive.get(FILE), pod_cgroup_settings(&pod, true, &options).unified.get(FILE)),
                (None, None)
            );
            let unlimited = asking(value, "cpu=100m", "");
            assert_eq!(pod_cgroup_settings(&unlimited, false, &options).unified.get(FILE), None);
        }
    }

    #[test]
    fn a_wish_that_is_not_followed_whole_is_told() {
        let told =
            |value: &str, allowed| cpu_burst_notice(&asking(value, "", ""), allowed).map(|said| said.to_string());
        assert_eq!(told("50", CpuBurst::Percent(50)), None);
        assert_eq!(told("0", CpuBurst::Off), None);
        let text = |end: &str| Some(format!("annotation podwright.io/cpu-burst {end}"));
        let bounded = text("asks for 51%, this node allows 50% (--cpu-burst-max-percent)");
        assert_eq!(told("51%", CpuBurst::Percent(50)), bounded);
        let off = text("is ignored: this node allows no CPU burst (--cpu-burst-max-percent is 0)");
        assert_eq!(told("50", CpuBurst::Off), off);
        assert_eq!(told("50", CpuBurst::CgroupV1), text("is ignored: the host has cgroup v1, which has no CPU burst"));
        assert_eq!(told("50", CpuBurst::OldKernel), text("is ignored: CPU burst needs Linux 5.14 or newer"));
    }

    proptest! {
        #[test]
        fn nobody_may_save_up_more_than_the_kernel_and_the_node_allow(
            quota in -1_i64..1 << 40, asked in 0_u8..101, allowed in 1_u8..101,
        ) {
            let unified = burst_unified(&asking(&asked.to_string(), "", ""), quota, &options(CpuBurst::Percent(allowed)));
            let burst = unified.get(FILE).map_or(0, |text| text.parse::<i64>().expect("a number"));
            prop_assert!(burst <= quota.max(0) && burst * 100 <= quota.max(0) * i64::from(allowed));
        }
    }
}
