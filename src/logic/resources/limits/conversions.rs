//! Between the API's units and the kernel's: shares, weight, quota, huge page names.
//!
//! Formulas and bounds as upstream's `pkg/kubelet/cm/helpers_linux.go`; they are seen by users in cgroup files and in
//! pod status, so they are kept to the last digit.

use std::collections::BTreeMap;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::{HUGEPAGES_PREFIX, ResourceList};

/// The fewest CPU shares the kernel takes; also the share of a pod that asks for none.
pub const CPU_SHARES_MIN: u64 = 2;
/// The most CPU shares the kernel takes.
pub const CPU_SHARES_MAX: u64 = 262_144;
/// The default of `cpuCFSQuotaPeriod`, in microseconds.
pub const CPU_PERIOD_DEFAULT_US: u64 = 100_000;

const CPU_SHARES_PER_CPU: i64 = 1024;
const MILLI_PER_CPU: i64 = 1000;
/// The smallest quota the kernel takes, in microseconds.
const CPU_QUOTA_MIN_US: i64 = 1000;
const CPU_WEIGHT_MAX: u64 = 10_000;

/// CPU shares of a request in thousandths of a CPU, within the kernel's bounds; nothing asked is the minimum.
pub fn milli_cpu_to_shares(milli_cpu: i64) -> u64 {
    let shares = milli_cpu.saturating_mul(CPU_SHARES_PER_CPU) / MILLI_PER_CPU;
    u64::try_from(shares).unwrap_or(0).clamp(CPU_SHARES_MIN, CPU_SHARES_MAX)
}

/// `cpu.weight` (1 to 10000) of CPU shares, by the linear rule used for the agent's own cgroups.
pub fn shares_to_weight(shares: u64) -> u64 {
    if shares >= CPU_SHARES_MAX {
        return CPU_WEIGHT_MAX;
    }
    1 + shares.saturating_sub(CPU_SHARES_MIN) * 9_999 / 262_142
}

/// CPU shares of a `cpu.weight`: the inverse of [`shares_to_weight`], less what its rounding lost.
pub fn weight_to_shares(weight: u64) -> u64 {
    weight.clamp(1, CPU_WEIGHT_MAX).saturating_sub(1) * 262_142 / 9_999 + CPU_SHARES_MIN
}

/// The time per period, in microseconds, of a limit in thousandths of a CPU; no limit is 0, else at least 1000.
pub fn milli_cpu_to_quota(milli_cpu: i64, period_us: u64) -> i64 {
    if milli_cpu == 0 {
        return 0;
    }
    let period = i64::try_from(period_us).unwrap_or(i64::MAX);
    (milli_cpu.saturating_mul(period) / MILLI_PER_CPU).max(CPU_QUOTA_MIN_US)
}

/// The limit, in thousandths of a CPU, that a quota means; −1 (unlimited), and a missing period, are 0.
pub fn quota_to_milli_cpu(quota_us: i64, period_us: i64) -> i64 {
    if quota_us == -1 || period_us <= 0 {
        return 0;
    }
    quota_us.saturating_mul(MILLI_PER_CPU) / period_us
}

/// The request, in thousandths of a CPU, that shares mean, rounded up; below the minimum it is 0.
pub fn shares_to_milli_cpu(shares: i64) -> i64 {
    if shares < CPU_SHARES_MIN as i64 {
        return 0;
    }
    let scaled = shares.saturating_mul(MILLI_PER_CPU);
    scaled / CPU_SHARES_PER_CPU + i64::from(scaled % CPU_SHARES_PER_CPU != 0)
}

/// Huge page amounts in bytes by page size in bytes; names that are no page size are left out.
pub fn hugepage_limits(list: &ResourceList) -> BTreeMap<u64, u64> {
    let mut limits = BTreeMap::new();
    for (name, quantity) in list {
        let Some(size) = name.strip_prefix(HUGEPAGES_PREFIX).and_then(|size| Quantity::parse(size).ok()) else {
            continue;
        };
        let Ok(size @ 1..) = u64::try_from(size.value()) else { continue };
        let limit: &mut u64 = limits.entry(size).or_default();
        *limit = limit.saturating_add(u64::try_from(quantity.value()).unwrap_or(0));
    }
    limits
}

/// The memory of so many huge pages of a size in bytes, by the resource's name; what is beyond the API's numbers is their
/// largest.
pub fn hugepage_capacity(size_bytes: u64, pages: u64) -> (String, Quantity) {
    let bytes = |bytes: u64| Quantity::from_units(i64::try_from(bytes).unwrap_or(i64::MAX), Format::BinarySi);
    (format!("{HUGEPAGES_PREFIX}{}", bytes(size_bytes)), bytes(size_bytes.saturating_mul(pages)))
}

/// A page size as the kernel's files and the runtime's interface name it: `2MB`, `1GB`.
/// A size that is no whole number of its largest unit has no such name.
pub fn hugepage_unit_name(size_bytes: u64) -> Option<String> {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut size = size_bytes;
    let mut unit = 0;
    while size > 0 && size.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        size /= 1024;
        unit += 1;
    }
    let named = size > 0 && (size <= 1024 || unit + 1 == UNITS.len());
    named.then(|| format!("{size}{}", UNITS[unit]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::resource_list;
    use crate::logic::resources::testing::list;

    /// RES-09.
    #[test]
    fn requests_become_shares_and_weights() {
        // thousandths of a CPU, shares, weight
        let cases = [
            (0, 2, 1),
            (1, 2, 1),
            (2, 2, 1),
            (10, 10, 1),
            (100, 102, 4),
            (250, 256, 10),
            (500, 512, 20),
            (1_000, 1_024, 39),
            (1_500, 1_536, 59),
            (2_000, 2_048, 79),
            (4_000, 4_096, 157),
            (256_000, 262_144, 10_000),
            (i64::MAX, 262_144, 10_000),
            (-5, 2, 1),
        ];
        for (milli, shares, weight) in cases {
            assert_eq!(milli_cpu_to_shares(milli), shares, "shares of {milli}m");
            assert_eq!(shares_to_weight(shares), weight, "weight of {shares}");
        }
        assert_eq!(shares_to_weight(0), 1);
        assert_eq!(shares_to_weight(262_143), 9_999);
    }

    #[test]
    fn weights_become_shares() {
        let cases = [(1, 2), (39, 998), (100, 2_597), (10_000, 262_144), (0, 2), (20_000, 262_144)];
        for (weight, shares) in cases {
            assert_eq!(weight_to_shares(weight), shares, "shares of weight {weight}");
        }
    }

    /// RES-09.
    #[test]
    fn limits_become_quotas() {
        // thousandths of a CPU, period, quota
        let cases = [
            (0, 100_000, 0),
            (1, 100_000, 1_000),
            (10, 100_000, 1_000),
            (11, 100_000, 1_100),
            (250, 100_000, 25_000),
            (1_000, 100_000, 100_000),
            (1_500, 100_000, 150_000),
            (200, 5_000, 1_000),
            (500, 5_000, 2_500),
            (i64::MAX, 100_000, i64::MAX / 1_000),
        ];
        for (milli, period, quota) in cases {
            assert_eq!(milli_cpu_to_quota(milli, period), quota, "quota of {milli}m over {period}");
        }
    }

    #[test]
    fn kernel_values_read_back_as_the_api_shows_them() {
        for (quota, period, milli) in [(25_000, 100_000, 250), (-1, 100_000, 0), (1_000, 100_000, 10), (5, 0, 0)] {
            assert_eq!(quota_to_milli_cpu(quota, period), milli, "{quota}/{period}");
        }
        for (shares, milli) in [(0, 0), (1, 0), (2, 2), (102, 100), (512, 500), (1_024, 1_000), (1_025, 1_001)] {
            assert_eq!(shares_to_milli_cpu(shares), milli, "{shares} shares");
        }
    }

    #[test]
    fn huge_pages_are_named_by_their_size() {
        let names = [
            (2 << 20, Some("2MB")),
            (1 << 30, Some("1GB")),
            (64 << 10, Some("64KB")),
            (512 << 20, Some("512MB")),
            (1025, None),
            (0, None),
        ];
        for (size, name) in names {
            assert_eq!(hugepage_unit_name(size).as_deref(), name, "{size}");
        }
        let requests = resource_list(list("hugepages-2Mi=6Mi,hugepages-2048Ki=2Mi,hugepages-1Gi=1Gi,cpu=1").as_ref());
        assert_eq!(hugepage_limits(&requests), BTreeMap::from([(2 << 20, 8 << 20), (1 << 30, 1 << 30)]));
        assert_eq!(hugepage_limits(&resource_list(list("hugepages-x=1,hugepages--1=2").as_ref())), BTreeMap::new());
    }

    proptest! {
        #[test]
        fn kernel_values_stay_within_the_kernels_bounds(milli in any::<i64>(), period in 1_000_u64..1_000_000) {
            let shares = milli_cpu_to_shares(milli);
            prop_assert!((CPU_SHARES_MIN..=CPU_SHARES_MAX).contains(&shares));
            prop_assert!((1..=CPU_WEIGHT_MAX).contains(&shares_to_weight(shares)));
            let quota = milli_cpu_to_quota(milli, period);
            prop_assert!(quota >= CPU_QUOTA_MIN_US || milli == 0);
        }

        #[test]
        fn a_request_survives_the_way_through_shares(milli in 2_i64..256_000) {
            prop_assert_eq!(shares_to_milli_cpu(milli_cpu_to_shares(milli) as i64), milli);
        }

        #[test]
        fn more_shares_never_weigh_less(one in 2_u64..262_200, two in 2_u64..262_200) {
            let (less, more) = (one.min(two), one.max(two));
            prop_assert!(shares_to_weight(less) <= shares_to_weight(more));
            prop_assert!(weight_to_shares(shares_to_weight(more)) <= more.min(CPU_SHARES_MAX));
        }
    }
}
