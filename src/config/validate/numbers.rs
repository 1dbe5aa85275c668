//! Rules about single numbers, and about numbers among each other. Part of `validate`.

use super::Review;
use crate::config::duration::GoDuration;

impl Review<'_> {
    pub(super) fn numbers(&mut self) {
        let c = self.config;
        self.refuse_if(c.node_lease_duration_seconds <= 0, || "nodeLeaseDurationSeconds must be greater than 0".into());
        self.refuse_if(!c.system_cgroups.is_empty() && c.cgroup_root.is_empty(), || {
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified".into()
        });
        self.not_negative("eventBurst (--event-burst)", c.event_burst);
        self.not_negative("eventRecordQPS (--event-qps)", c.event_record_qps);
        self.port("healthzPort (--healthz-port)", c.healthz_port, true, 1);
        self.cpu_quota_period();
        self.between(
            "imageGCHighThresholdPercent (--image-gc-high-threshold)",
            c.image_gc_high_threshold_percent,
            0,
            100,
        );
        self.between("imageGCLowThresholdPercent (--image-gc-low-threshold)", c.image_gc_low_threshold_percent, 0, 100);
        self.image_garbage_collection();
        self.between("iptablesDropBit (--iptables-drop-bit)", c.iptables_drop_bit, 0, 31);
        self.between("iptablesMasqueradeBit (--iptables-masquerade-bit)", c.iptables_masquerade_bit, 0, 31);
        self.not_negative("kubeAPIBurst (--kube-api-burst)", c.kube_api_burst);
        self.not_negative("kubeAPIQPS (--kube-api-qps)", c.kube_api_qps);
        let images = c.node_status_max_images;
        self.refuse_if(images < -1, || {
            format!("nodeStatusMaxImages (--node-status-max-images) {images} must be -1 or greater")
        });
        self.not_negative("maxOpenFiles (--max-open-files)", c.max_open_files);
        self.not_negative("maxPods (--max-pods)", c.max_pods);
        self.between("oomScoreAdj (--oom-score-adj)", c.oom_score_adj, -1000, 1000);
        self.not_negative("podsPerCore (--pods-per-core)", c.pods_per_core);
        self.port("port (--port)", c.port, false, 1);
        self.port("readOnlyPort (--read-only-port)", c.read_only_port, true, 0);
        self.not_negative("registryBurst (--registry-burst)", c.registry_burst);
        self.not_negative("registryPullQPS (--registry-qps)", c.registry_pull_qps);
    }

    fn not_negative(&mut self, field: &str, value: impl Into<i64>) {
        let value = value.into();
        self.refuse_if(value < 0, || format!("{field} {value} must not be a negative number"));
    }

    fn between(&mut self, field: &str, value: i32, min: i32, max: i32) {
        self.refuse_if(!(min..=max).contains(&value), || {
            format!("{field} {value} must be between {min} and {max}, inclusive")
        });
    }

    /// `said_min` is the least port that the text names; zero may be legal either way.
    fn port(&mut self, field: &str, value: i32, may_be_zero: bool, said_min: i32) {
        let valid = (1..=65_535).contains(&value) || (may_be_zero && value == 0);
        self.refuse_if(!valid, || format!("{field} {value} must be between {said_min} and 65535, inclusive"));
    }

    fn cpu_quota_period(&mut self) {
        let period = self.config.cpu_cfs_quota_period;
        let field = "cpuCFSQuotaPeriod (--cpu-cfs-quota-period)";
        let custom = self.on("CustomCPUCFSQuotaPeriod");
        self.refuse_if(!custom && period != GoDuration::from_millis(100), || {
            format!("{field} {{{period}}} requires feature gate CustomCPUCFSQuotaPeriod")
        });
        let legal = GoDuration::from_millis(1)..=GoDuration::from_secs(1);
        self.refuse_if(custom && !legal.contains(&period), || {
            format!("{field} {{{period}}} must be between 1ms and 1sec, inclusive")
        });
    }

    fn image_garbage_collection(&mut self) {
        let c = self.config;
        let (low, high) = (c.image_gc_low_threshold_percent, c.image_gc_high_threshold_percent);
        self.refuse_if(low >= high, || {
            format!(
                "imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than \
                 imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
            )
        });
        let (min, max) = (c.image_minimum_gc_age, c.image_maximum_gc_age);
        self.refuse_if(max != GoDuration::ZERO && !self.on("ImageMaximumGCAge"), || {
            "ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge".into()
        });
        self.refuse_if(min < GoDuration::ZERO, || format!("imageMinimumGCAge {min} must not be negative"));
        self.refuse_if(max < GoDuration::ZERO, || format!("imageMaximumGCAge {max} must not be negative"));
        self.refuse_if(max > GoDuration::ZERO && max <= min, || {
            format!("imageMaximumGCAge {max} must be greater than imageMinimumGCAge {min}")
        });
    }

    pub(super) fn image_pulls(&mut self) {
        let c = self.config;
        let pulls = c.max_parallel_image_pulls.unwrap_or(1);
        self.refuse_if(pulls < 1, || format!("maxParallelImagePulls {pulls} must be a positive number"));
        self.refuse_if(c.serialize_image_pulls && pulls > 1, || {
            "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set \
             to false"
                .into()
        });
        self.refuse_if(c.server_tls_bootstrap && !self.on("RotateKubeletServerCertificate"), || {
            "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate".into()
        });
        self.refuse_if(c.run_once, || {
            "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set".into()
        });
    }
}
