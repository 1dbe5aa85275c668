//! Tests of `parse`: files as kernels write them.

use super::*;

#[test]
fn numbers_and_no_limits() {
    for (text, expected) in [
        ("123\n", Some(123)),
        ("max\n", Some(UNLIMITED)),
        ("9223372036854771712\n", Some(9_223_372_036_854_771_712)),
        ("-1\n", None),
        ("", None),
        ("99999999999999999999\n", None),
    ] {
        assert_eq!(number(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn processor_time_of_both_generations() {
    let v2 = cpu_stat(
        b"usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\ncore_sched.force_idle_usec 0\nnr_periods 10\n\
          nr_throttled 3\nthrottled_usec 7000\nnr_bursts 2\nburst_usec 9\n",
    );
    assert_eq!((v2.total_ns, v2.user_ns, v2.system_ns), (1_500_000_000, 1_000_000_000, 500_000_000));
    assert_eq!((v2.periods, v2.throttled_periods, v2.throttled_ns), (10, 3, 7_000_000));
    assert_eq!((v2.bursts, v2.burst_ns), (2, 9_000));
    let mut v1 = CpuFigures::default();
    cpuacct_stat(b"user 150\nsystem 25\n", &mut v1);
    cpu_stat_v1(b"nr_periods 10\nnr_throttled 3\nthrottled_time 7000\nnr_bursts 1\nburst_time 5\n", &mut v1);
    assert_eq!((v1.user_ns, v1.system_ns), (1_500_000_000, 250_000_000));
    assert_eq!((v1.periods, v1.throttled_periods, v1.throttled_ns, v1.burst_ns), (10, 3, 7000, 5));
}

#[test]
fn memory_of_both_generations() {
    let v2 = memory_stat(
        b"anon 100\nfile 70\nkernel 9\nfile_mapped 8\nactive_file 30\ninactive_file 40\npgfault 5\npgmajfault 1\nodd x\n",
    );
    assert_eq!((v2.rss, v2.cache, v2.kernel, v2.mapped_file), (100, 70, 9, 8));
    assert_eq!((v2.active_file, v2.inactive_file, v2.page_faults, v2.major_page_faults), (30, 40, 5, 1));
    let (v1, nearest) = memory_stat_v1(
        b"hierarchical_memory_limit 4096\ncache 1\nrss 1\npgfault 5\npgmajfault 1\ntotal_cache 70\ntotal_rss 100\ntotal_swap 3\ntotal_mapped_file 8\n\
          total_pgfault 900\ntotal_inactive_file 40\ntotal_active_file 30\n",
    );
    assert_eq!((v1.rss, v1.cache, v1.swap, v1.mapped_file, v1.inactive_file), (100, 70, 3, 8, 40));
    assert_eq!(v1.page_faults, 5, "the group's own, as upstream takes them");
    assert_eq!(nearest, NearestLimits { memory: Some(4096), with_swap: None });
}

#[test]
fn the_working_set_is_never_below_zero() {
    let memory = MemoryFigures { usage: 10, inactive_file: 40, ..MemoryFigures::default() };
    assert_eq!(memory.working_set(), 0);
    assert_eq!(MemoryFigures { usage: 50, ..memory }.working_set(), 10);
}

#[test]
fn quotas() {
    assert_eq!(cpu_max(b"max 100000\n"), Some((0, 100_000)));
    assert_eq!(cpu_max(b"50000 100000\n"), Some((50_000, 100_000)));
    assert_eq!(cpu_max(b"\n"), None);
}

#[test]
fn pressure_with_and_without_the_full_line() {
    let told = pressure(
        b"some avg10=1.50 avg60=0.20 avg300=0.00 total=12345\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=99\n",
    );
    let told = told.expect("it is a pressure file");
    assert_eq!((told.some.avg10, told.some.avg60, told.some.total_us), (1.5, 0.2, 12_345));
    assert_eq!((told.full.avg10, told.full.total_us), (0.1, 99));
    let some = pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").expect("older kernels have one line");
    assert_eq!((some.some.total_us, some.full), (7, PressureLine::default()));
    assert_eq!(pressure(b""), None);
}

#[test]
fn devices_of_both_generations() {
    let v2 = io_stat(b"254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n7:1 \nbad rbytes=1\n");
    assert_eq!(v2.len(), 2);
    assert_eq!((v2[0].major, v2[0].minor, v2[0].bytes.read, v2[0].requests.write), (254, 0, 4096, 2));
    assert_eq!(v2[0].bytes.named().collect::<Vec<_>>(), [("Read", 4096), ("Write", 8192)]);
    let mut v1 = vec![];
    let bytes =
        b"254:0 Read 10\n254:0 Write 20\n254:0 Sync 5\n254:0 Async 25\n254:0 Discard 0\n254:0 Total 30\nTotal 30\n";
    blkio(bytes, &mut v1, |device| &mut device.bytes);
    blkio(b"254:0 Read 1\n254:0 Write 2\nTotal 3\n", &mut v1, |device| &mut device.requests);
    assert_eq!(v1.len(), 1, "the sum over all devices is none of them");
    let named: Vec<_> = v1[0].bytes.named().collect();
    assert_eq!(named, [("Async", 25), ("Discard", 0), ("Read", 10), ("Sync", 5), ("Total", 30), ("Write", 20)]);
    assert_eq!((v1[0].requests.read, v1[0].requests.write), (1, 2));
}

#[test]
fn interfaces_without_those_of_others() {
    let text = b"Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
        eth0:1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0\n\
        vethab: 5 5 0 0 0 0 0 0 5 5 0 0 0 0 0 0\n\
        short: 1 2\n";
    let told = interfaces(text);
    assert_eq!(told.len(), 1, "{told:?}");
    let expected = |bytes, packets, errors, dropped| Traffic { bytes, packets, errors, dropped };
    assert_eq!(told[0].name, "eth0");
    assert_eq!((told[0].received, told[0].sent), (expected(1000, 10, 1, 2), expected(2000, 20, 3, 4)));
}

#[test]
fn what_proc_says_of_the_node() {
    let meminfo = b"MemTotal:        8000 kB\nSwapTotalX: 1 kB\nSwapTotal:       16 kB\nSwapFree: 4 kB\n";
    assert_eq!(memory_field(meminfo, "SwapTotal"), Some(16 << 10));
    assert_eq!(memory_field(meminfo, "Other"), None);
    assert_eq!(threads(b"0.20 0.10 0.05 2/345 6789\n"), Some(345));
    assert_eq!(open_files_max(b"Limit Soft Hard Units\nMax open files            1024   4096   files\n"), Some(1024));
    assert_eq!(open_files_max(b"Max open files            unlimited unlimited files\n"), Some(-1));
    let disks = disks(b" 254       0 vda 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0\n 7 0 loop0 1\n");
    assert_eq!(disks.len(), 1);
    assert_eq!((disks[0].name.as_str(), disks[0].reads, disks[0].sectors_written), ("vda", 1, 7));
    assert_eq!((disks[0].in_progress, disks[0].io_ms, disks[0].weighted_io_ms), (9, 10, 11));
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_odd(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let (mut cpu, mut devices) = (CpuFigures::default(), vec![]);
        cpuacct_stat(&text, &mut cpu);
        blkio(&text, &mut devices, |device| &mut device.bytes);
        let _ = (number(&text), cpu_stat(&text), memory_stat(&text), memory_stat_v1(&text), pressure(&text));
        let _ = (io_stat(&text), interfaces(&text), disks(&text), threads(&text), cpu_max(&text));
        let _ = (open_files_max(&text), memory_field(&text, "MemTotal"), value_of(&text, "x"));
    }
}
