//! Rules about the `logging` section. They are looked at twice: before logging starts, and with all the others.
//!
//! Upstream: `staging/src/k8s.io/component-base/logs/api/v1/options.go`.

use crate::config::duration::GoDuration;
use crate::config::gates::FeatureGates;
use crate::config::quantity_text::QuantityText;
use crate::config::types::Logging;

/// Every broken rule, in order, each with its field's path.
pub fn errors(logging: &Logging, gates: &FeatureGates) -> Vec<String> {
    let mut errors = Vec::new();
    let too_large = |level: u32| level > i32::MAX.unsigned_abs();
    if logging.flush_frequency <= GoDuration::ZERO {
        let frequency = logging.flush_frequency;
        errors.push(format!("logging.flushFrequency: Invalid value: \"{frequency}\": Must be greater than zero"));
    }
    if !["text", "json"].contains(&logging.format.as_str()) {
        errors.push(format!("logging.format: Invalid value: {:?}: Unsupported log format", logging.format));
    }
    if logging.format == "json" && !gates.enabled("LoggingBetaOptions") {
        errors.push("logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature".into());
    }
    if too_large(logging.verbosity) {
        errors.push(format!("logging.verbosity: Invalid value: {}: Must be <= {}", logging.verbosity, i32::MAX));
    }
    if !logging.vmodule.is_empty() && !["", "text"].contains(&logging.format.as_str()) {
        errors.push("logging.vmodule: Forbidden: Only supported for text log format".into());
    }
    for (index, item) in logging.vmodule.iter().enumerate() {
        let path = format!("logging.vmodule[{index}]");
        if item.file_pattern.is_empty() {
            errors.push(format!("{path}: Required value: File pattern must not be empty"));
        }
        if item.file_pattern.contains(['=', ',']) {
            let pattern = &item.file_pattern;
            errors
                .push(format!("{path}: Invalid value: {pattern:?}: File pattern must not contain equal sign or comma"));
        }
        if too_large(item.verbosity) {
            errors.push(format!("{path}: Invalid value: {}: Must be <= {}", item.verbosity, i32::MAX));
        }
    }
    if !gates.enabled("LoggingAlphaOptions") {
        for (format, options) in [("text", &logging.options.text), ("json", &logging.options.json)] {
            let buffered = QuantityText::parse(&options.info_buffer_size).is_ok_and(|size| !size.is_zero);
            for (field, set) in [("splitStream", options.split_stream), ("infoBufferSize", buffered)] {
                if set {
                    errors.push(format!(
                        "logging.options.{format}.{field}: Forbidden: Feature LoggingAlphaOptions is disabled"
                    ));
                }
            }
        }
    }
    errors
}
