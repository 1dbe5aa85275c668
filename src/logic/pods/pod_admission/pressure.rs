//! New pods under pressure (EVI-32, EVI-33, EVI-46). The text is upstream's, with its blank.

use k8s_openapi::api::core::v1::{Pod, Toleration};

use crate::logic::model::pressure::Pressure;
use crate::logic::resources::{QosClass, is_critical, pod_qos};

/// The taint by which the control plane keeps pods away from a node without memory.
const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Why a pod is refused while the node has this pressure; `None` when it is not.
pub(super) fn refusal(pod: &Pod, pressure: Pressure, pod_level_resources: bool) -> Option<String> {
    if pressure == Pressure::default() || is_critical(pod) {
        return None;
    }
    if !pressure.disk && !pressure.pid {
        let is_best_effort = pod_qos(pod, pod_level_resources) == QosClass::BestEffort;
        if !is_best_effort || tolerates_memory_pressure(pod) {
            return None;
        }
    }
    let conditions =
        [(pressure.memory, "MemoryPressure"), (pressure.disk, "DiskPressure"), (pressure.pid, "PIDPressure")];
    let holding: Vec<_> = conditions.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    Some(format!("The node had condition: [{}]. ", holding.join(" ")))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let tolerates = |toleration: &Toleration| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (key, effect, value) = (text(&toleration.key), text(&toleration.effect), text(&toleration.value));
        let of_key = key == MEMORY_PRESSURE_TAINT || key.is_empty();
        let of_effect = effect.is_empty() || effect == "NoSchedule";
        let of_value = match text(&toleration.operator).as_str() {
            "Exists" => true,
            // The taint has no value.
            "" | "Equal" => value.is_empty() && !key.is_empty(),
            _ => false,
        };
        of_key && of_effect && of_value
    };
    tolerations.into_iter().any(tolerates)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(priority: i32, spec: serde_json::Value) -> Pod {
        let mut spec = spec;
        spec["priority"] = json!(priority);
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c"}]);
        }
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a pod")
    }

    fn burstable() -> Pod {
        pod(0, json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Mi"}}}]}))
    }

    const NONE: Pressure = Pressure { memory: false, disk: false, pid: false };
    const MEMORY: Pressure = Pressure { memory: true, ..NONE };
    const DISK: Pressure = Pressure { disk: true, ..NONE };

    /// EVI-32.
    #[test]
    fn evi_32_memory_pressure_keeps_away_what_asks_for_nothing() {
        let best_effort = pod(0, json!({}));
        assert_eq!(refusal(&best_effort, NONE, true), None);
        assert_eq!(refusal(&best_effort, MEMORY, true).as_deref(), Some("The node had condition: [MemoryPressure]. "));
        assert_eq!(refusal(&burstable(), MEMORY, true), None);
        for (toleration, admitted) in [
            (json!({"key": MEMORY_PRESSURE_TAINT, "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": MEMORY_PRESSURE_TAINT}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": MEMORY_PRESSURE_TAINT, "value": "x"}), false),
            (json!({"key": MEMORY_PRESSURE_TAINT, "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let tolerating = pod(0, json!({"tolerations": [toleration]}));
            assert_eq!(refusal(&tolerating, MEMORY, true).is_none(), admitted, "{toleration}");
        }
    }

    /// EVI-33, EVI-46.
    #[test]
    fn evi_33_evi_46_other_pressure_keeps_all_away_but_critical_pods() {
        let all = Pressure { memory: true, disk: true, pid: true };
        let burstable = burstable();
        assert_eq!(refusal(&burstable, DISK, true).as_deref(), Some("The node had condition: [DiskPressure]. "));
        let text = "The node had condition: [MemoryPressure DiskPressure PIDPressure]. ";
        assert_eq!(refusal(&burstable, all, true).as_deref(), Some(text));
        assert_eq!(refusal(&pod(2_000_000_000, json!({})), all, true), None);
        let mut fixed = pod(0, json!({}));
        fixed.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
        assert_eq!(refusal(&fixed, all, true), None);
    }
}
