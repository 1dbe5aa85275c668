//! The rules about paths: relative ones, and ones that never go up.

use super::field::{Errors, FieldPath};

/// Whether a path goes up somewhere.
pub(super) fn has_backstep(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// A path that never goes up.
pub(super) fn no_backsteps(target: &str, path: &FieldPath, errors: &mut Errors) {
    if has_backstep(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// A relative path that never goes up.
pub(super) fn descending(target: &str, path: &FieldPath, errors: &mut Errors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(target, path, errors);
}

/// A relative path in a volume whose names with two leading dots are the agent's own.
pub(super) fn not_reserved(target: &str, path: &FieldPath, errors: &mut Errors) {
    descending(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
