//! Rules about taints, policies, shutdown, swap and back-off. Part of `validate`.

use super::Review;
use crate::config::duration::GoDuration;
use crate::config::labels;

impl Review<'_> {
    pub(super) fn taints(&mut self) {
        for taint in &self.config.register_with_taints {
            let effect_known = taint.effect.is_empty() || labels::TAINT_EFFECTS.contains(&taint.effect.as_str());
            let valid = labels::key_errors(&taint.key).is_empty()
                && labels::value_errors(&taint.value).is_empty()
                && effect_known;
            if !valid {
                let time = taint.time_added.as_deref().unwrap_or("<nil>");
                let (key, value, effect) = (&taint.key, &taint.value, &taint.effect);
                self.errors.push(format!("invalid taint: {{{key} {value} {effect} {time}}}"));
            }
            self.refuse_if(taint.time_added.is_some(), || "taint.TimeAdded is not nil".into());
        }
    }

    pub(super) fn topology(&mut self) {
        let (policy, scope) = (&self.config.topology_manager_policy, &self.config.topology_manager_scope);
        let known = ["none", "best-effort", "restricted", "single-numa-node"];
        self.refuse_if(!known.contains(&policy.as_str()), || {
            format!(
                "topologyManagerPolicy (--topology-manager-policy) {policy:?} must be one of: \
                 [\"none\" \"best-effort\" \"restricted\" \"single-numa-node\"]"
            )
        });
        self.refuse_if(!["container", "pod"].contains(&scope.as_str()), || {
            format!(
                "topologyManagerScope (--topology-manager-scope) {scope:?} must be one of: \"container\", or \"pod\""
            )
        });
    }

    pub(super) fn shutdown(&mut self) {
        let c = self.config;
        let (all, critical) = (c.shutdown_grace_period, c.shutdown_grace_period_critical_pods);
        let graceful = self.on("GracefulNodeShutdown");
        let is_odd = |period: GoDuration| period != GoDuration::ZERO && period < GoDuration::from_secs(1);
        self.refuse_if(graceful && critical > all, || {
            format!("shutdownGracePeriodCriticalPods {{{critical}}} must be <= shutdownGracePeriod {{{all}}}")
        });
        self.refuse_if(graceful && is_odd(all), || {
            format!("shutdownGracePeriod {{{all}}} must be either zero or otherwise >= 1 sec")
        });
        self.refuse_if(graceful && is_odd(critical), || {
            format!("shutdownGracePeriodCriticalPods {{{critical}}} must be either zero or otherwise >= 1 sec")
        });
        let any = all > GoDuration::ZERO || critical > GoDuration::ZERO;
        self.refuse_if(any && !graceful, || {
            "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate \
             GracefulNodeShutdown"
                .into()
        });
        let by_priority = self.on("GracefulNodeShutdownBasedOnPodPriority");
        let has_priorities = !c.shutdown_grace_period_by_pod_priority.is_empty();
        self.refuse_if(by_priority && has_priorities && any, || {
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time".into()
        });
        self.refuse_if(!by_priority && has_priorities, || {
            "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"
                .into()
        });
    }

    pub(super) fn swap_and_back_off(&mut self) {
        let behavior = &self.config.memory_swap.swap_behavior;
        // Node swap is locked on at this release, so only the behaviour is left to judge.
        self.refuse_if(!["", "NoSwap", "LimitedSwap"].contains(&behavior.as_str()), || {
            format!("memorySwap.swapBehavior {behavior:?} must be one of: \"\", \"LimitedSwap\" or \"NoSwap\"")
        });
        let name = "CrashLoopBackOff.MaxContainerRestartPeriod";
        let period = self.config.crash_loop_back_off.max_container_restart_period;
        if !self.on("KubeletCrashLoopBackOffMax") {
            self.refuse_if(period.is_some(), || {
                format!("FeatureGate KubeletCrashLoopBackOffMax not enabled, {name} must not be set")
            });
            return;
        }
        match period {
            None => self
                .refuse_if(true, || format!("FeatureGate KubeletCrashLoopBackOffMax is enabled, {name} must be set")),
            Some(period) => {
                // Whole milliseconds count, as upstream has it.
                let milliseconds = period.0 / 1_000_000;
                self.refuse_if(!(1_000..=300_000).contains(&milliseconds), || {
                    format!("{name} (got: {} seconds) must be set between 1s and 300s", period.as_seconds())
                });
            }
        }
    }

    pub(super) fn network(&mut self) {
        let mode = &self.config.hairpin_mode;
        self.refuse_if(!["none", "hairpin-veth", "promiscuous-bridge"].contains(&mode.as_str()), || {
            format!(
                "option {mode:?} specified for hairpinMode (--hairpin-mode). Valid options are \"none\", \
                 \"hairpin-veth\" or \"promiscuous-bridge\""
            )
        });
    }

    pub(super) fn memory_qos(&mut self) {
        let factor = self.config.memory_throttling_factor;
        let policy = &self.config.memory_reservation_policy;
        let memory_qos = self.on("MemoryQoS");
        self.refuse_if(memory_qos && factor.is_none(), || {
            "memoryThrottlingFactor is required when MemoryQoS feature flag is enabled".into()
        });
        if let Some(factor) = factor {
            self.refuse_if(factor <= 0.0 || factor > 1.0, || {
                format!("memoryThrottlingFactor {factor} must be greater than 0 and less than or equal to 1.0")
            });
        }
        self.refuse_if(!memory_qos && policy == "TieredReservation", || {
            format!("memoryReservationPolicy {policy:?} requires MemoryQoS feature gate to be enabled")
        });
        self.refuse_if(!["None", "TieredReservation"].contains(&policy.as_str()), || {
            format!(
                "option {policy:?} specified for memoryReservationPolicy. Valid options are \"None\" or \
                 \"TieredReservation\""
            )
        });
    }
}
