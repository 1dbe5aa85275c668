//! The agent's own process: how likely the kernel kills it, what it may open, and that it gives nothing of itself away.
//!
//! Called by `main` once, before any thread starts. Keeps nothing. No failure here is fatal: as upstream, it is logged.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};

/// A setting of the process that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("set {setting} of the agent to {value}: {problem}")]
pub struct SettingError {
    /// Which setting.
    pub setting: &'static str,
    /// The value that it was to have.
    pub value: String,
    /// The kernel's error.
    pub problem: io::Error,
}

fn refused(setting: &'static str, value: impl ToString, problem: impl Into<io::Error>) -> SettingError {
    SettingError { setting, value: value.to_string(), problem: problem.into() }
}

/// Sets how likely the kernel kills the agent when memory runs out: from -1000, never, to 1000 (CFG-41).
///
/// # Errors
/// When the value is out of range, or lower than the process may set.
pub fn set_oom_score_adj(value: i32) -> Result<(), SettingError> {
    write_oom_score_adj(Path::new("/proc/self/oom_score_adj"), value)
}

fn write_oom_score_adj(path: &Path, value: i32) -> Result<(), SettingError> {
    fs::write(path, value.to_string()).map_err(|error| refused("oom_score_adj", value, error))
}

/// Sets how many files the agent may have open, softly and hard (CFG-41).
///
/// # Errors
/// When the hard limit would grow and the process may not.
pub fn set_open_files_limit(files_max: u64) -> Result<(), SettingError> {
    setrlimit(Resource::RLIMIT_NOFILE, files_max, files_max).map_err(|errno| refused("RLIMIT_NOFILE", files_max, errno))
}

/// Keeps secrets in the agent's memory from others: no core dump, no tracer but root, and nothing it makes is for all
/// (umask 0027). A file that must have another mode is given it expressly (SEC-60).
///
/// # Errors
/// The first refusal of the kernel; the rest was tried all the same.
pub fn harden() -> Result<(), SettingError> {
    umask(Mode::S_IWGRP | Mode::S_IRWXO);
    let core = setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|errno| refused("RLIMIT_CORE", 0, errno));
    let dumpable = prctl::set_dumpable(false).map_err(|errno| refused("PR_SET_DUMPABLE", 0, errno));
    core.and(dumpable)
}

/// Has all threads share one pool of memory. A pool for each would keep, for good, what that thread once needed at most.
/// To be called before there is a second thread. Does nothing with allocators other than the GNU library's.
pub fn share_memory_pool() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the call takes two numbers and touches no memory of ours")]
    // SAFETY: `mallopt` has no precondition but that no other thread allocates meanwhile.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives memory that was freed back to the kernel, after work that took much for a moment. Takes some milliseconds when
/// there is much to give. Does nothing with other allocators: musl's gives it back by itself.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the call takes a number, touches no memory of ours, and is safe between threads")]
    // SAFETY: `malloc_trim` has no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::getrlimit;

    use super::*;

    const CHILD: &str = "PODWRIGHT_TEST_PROCESS_CHILD";

    /// Runs one test of this module in a process of its own, for what it sets would be felt by the others.
    fn alone(test: &str) -> bool {
        if std::env::var_os(CHILD).is_some() {
            return true;
        }
        let name = format!("platform::host::process::tests::{test}");
        let agent = std::env::current_exe().expect("the test's own path");
        let output = std::process::Command::new(agent).args(["--exact", &name]).env(CHILD, "1").output().expect("ran");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{told}");
        // A name that no test has would pass without a test.
        assert!(told.contains("1 passed"), "{name}: {told}");
        false
    }

    /// SEC-60.
    #[test]
    fn sec_60_a_hardened_process_leaves_no_core_and_makes_private_files() {
        if !alone("sec_60_a_hardened_process_leaves_no_core_and_makes_private_files") {
            return;
        }
        harden().expect("allowed to all");
        let status = fs::read_to_string("/proc/self/status").expect("there");
        assert!(status.lines().any(|line| line == "Umask:\t0027"), "{status}");
        assert_eq!(prctl::get_dumpable(), Ok(false));
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
    }

    #[test]
    fn the_limit_of_open_files_is_set_on_both_sides() {
        if !alone("the_limit_of_open_files_is_set_on_both_sides") {
            return;
        }
        set_open_files_limit(512).expect("lower is allowed to all");
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((512, 512)));
    }

    #[test]
    fn the_score_is_set_and_a_refusal_names_it() {
        if !alone("the_score_is_set_and_a_refusal_names_it") {
            return;
        }
        set_oom_score_adj(500).expect("higher is allowed to all");
        assert_eq!(fs::read_to_string("/proc/self/oom_score_adj").expect("there").trim(), "500");
        let text = set_oom_score_adj(2000).expect_err("out of range").to_string();
        assert!(text.starts_with("set oom_score_adj of the agent to 2000: "), "{text}");
    }

    #[test]
    fn memory_can_be_released_at_any_time() {
        let kept = vec![7_u8; 1 << 20];
        drop(vec![0_u8; 8 << 20]);
        release_free_memory();
        assert!(kept.iter().all(|byte| *byte == 7));
    }
}
