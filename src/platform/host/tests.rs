//! The host as made-up files tell it.

use std::fs;

use super::*;

fn host_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().expect("a directory");
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(path, content).expect("written");
    }
    let host = Host::at(folder.path().to_path_buf());
    (folder, host)
}

#[test]
fn the_host_name_is_trimmed_and_lowered_and_never_empty() {
    let (_folder, host) = host_with(&[("proc/sys/kernel/hostname", " Node-1\n")]);
    for (name_override, expected) in [("", "node-1"), (" Other ", "other")] {
        assert_eq!(host.hostname(name_override).expect("told"), expected);
    }
    let text = host.hostname("  ").expect_err("empty").to_string();
    assert!(text.ends_with("empty hostname is invalid"), "{text}");
    assert!(host_with(&[]).1.hostname("").is_err());
}

#[test]
fn sizes_are_read_as_the_kernel_writes_them() {
    let (_folder, host) = host_with(&[
        ("proc/meminfo", "MemTotal:        8039132 kB\nMemFree:  1 kB\n"),
        ("sys/devices/system/cpu/online", "0-3,8,10-11\n"),
        ("proc/sys/kernel/pid_max", "4194304\n"),
        ("proc/sys/kernel/threads-max", "62000\n"),
    ]);
    assert_eq!(host.memory_bytes().expect("told"), 8_039_132 * 1024);
    assert_eq!(host.processors().expect("told"), 7);
    assert_eq!(host.processes_max().expect("told"), 62_000);
}

#[test]
fn a_size_in_another_form_is_an_error_that_names_the_file() {
    for content in ["", "MemFree: 1 kB\n", "MemTotal: x kB\n", "MemTotal: 99999999999999999999 kB\n"] {
        let (_folder, host) = host_with(&[("proc/meminfo", content)]);
        let text = host.memory_bytes().expect_err(content).to_string();
        assert!(text.contains("proc/meminfo: "), "{text}");
    }
    for content in ["", "3-1", "x", "0-4294967295", "1,,2"] {
        let (_folder, host) = host_with(&[("sys/devices/system/cpu/online", content)]);
        assert!(host.processors().is_err(), "{content:?}");
    }
}

#[test]
fn swap_is_on_when_the_table_has_an_entry() {
    let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
    for (content, on) in [(head.to_owned(), false), (format!("{head}/dev/vdb partition 1 0 -2\n"), true)] {
        let (_folder, host) = host_with(&[("proc/swaps", &content)]);
        assert_eq!(host.swap_is_on().expect("told"), on);
    }
    assert!(!host_with(&[]).1.swap_is_on().expect("a kernel without swap"));
}

/// NODE-21.
#[test]
fn identities_have_their_second_places() {
    let (_folder, host) = host_with(&[
        ("var/lib/dbus/machine-id", "abc\n"),
        ("proc/sys/kernel/random/boot_id", "b-1\n"),
        ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
    ]);
    let told = (host.machine_id(), host.system_uuid(), host.boot_id().expect("told"), host.os_image());
    assert_eq!(told, ("abc".to_owned(), "abc".to_owned(), "b-1".to_owned(), "Some Linux 1".to_owned()));
    assert_eq!(host_with(&[]).1.os_image(), "Unknown");
    assert_eq!(host_with(&[("etc/os-release", "NAME=x\n")]).1.os_image(), "Linux");
    let (_folder, board) = host_with(&[("proc/device-tree/vm,uuid", "u-1\0")]);
    assert_eq!(board.system_uuid(), "u-1");
}

/// NODE-22.
#[test]
fn huge_pages_and_swap_are_counted() {
    let (_folder, host) = host_with(&[
        ("proc/meminfo", "MemTotal: 1 kB\nSwapTotal:       2048 kB\n"),
        ("proc/stat", "cpu 1 2\nbtime 1700000000\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ("sys/kernel/mm/hugepages/other/nr_hugepages", "9\n"),
    ]);
    assert_eq!(host.hugepages().expect("told"), [(2 << 20, 16), (1 << 30, 0)].into());
    assert_eq!(host.swap_bytes().expect("told"), 2 << 20);
    assert_eq!((host.booted(), host_with(&[]).1.booted()), (Some(Moment(1_700_000_000_000_000_000)), None));
    assert_eq!(host_with(&[]).1.hugepages().expect("a kernel without them"), BTreeMap::new());
    let (_folder, odd) = host_with(&[("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "x")]);
    assert!(odd.hugepages().is_err());
}

#[test]
fn this_host_can_be_told() {
    let host = Host::default();
    assert!(host.memory_bytes().expect("told") > 1 << 20);
    assert!(host.processors().expect("told") >= 1);
    assert_eq!(host.boot_id().expect("told").len(), 36);
    assert!(host.processes_max().expect("told") > 100);
    assert!(!host.kernel_version().expect("told").is_empty());
}
