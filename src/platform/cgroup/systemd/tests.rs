//! The properties as systemd wants them, and orders over a real message bus to a stand-in for systemd.

#![expect(clippy::disallowed_types, reason = "the interface macro names a map in what it expands to")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::{ObjectPath, OwnedValue};

use super::super::v2::CgroupsV2;
use super::*;
use crate::logic::resources::QosClass;
use crate::platform::host::played_bus::Bus;

fn printed(properties: &[Property<'_>]) -> Vec<String> {
    let text = |value: &Value<'_>| match value {
        Value::U64(number) => number.to_string(),
        Value::Bool(switch) => switch.to_string(),
        Value::Str(text) => text.to_string(),
        other => format!("{:?}", Vec::<u8>::try_from(other.try_clone().expect("plain")).unwrap_or_default()),
    };
    properties.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
}

#[test]
fn settings_become_the_properties_of_either_generation() {
    let settings = CgroupSettings {
        cpu_shares: Some(1024),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 30),
        pids_max: Some(0),
        cpuset_cpus: Some("0-2,8".to_owned()),
        unified: BTreeMap::from(
            [("memory.min", "4096"), ("memory.oom.group", "1"), ("memory.high", "max")]
                .map(|(file, value)| (file.to_owned(), value.to_owned())),
        ),
        ..CgroupSettings::default()
    };
    let found = printed(&resource_properties(&settings, CgroupVersion::V2, 255));
    let expected = [
        "MemoryMax=1073741824",
        "CPUWeight=39",
        "CPUQuotaPeriodUSec=100000",
        "CPUQuotaPerSecUSec=500000",
        "TasksMax=1",
        "MemoryHigh=18446744073709551615",
        "MemoryMin=4096",
        "AllowedCPUs=[7, 1]",
    ];
    assert_eq!(found, expected);
    let old = CgroupSettings { unified: BTreeMap::new(), memory_limit: Some(-1), cpu_quota: Some(-1), ..settings };
    let found = printed(&resource_properties(&old, CgroupVersion::V1, 241));
    let unlimited = u64::MAX;
    let expected = [
        format!("MemoryLimit={unlimited}"),
        "CPUShares=1024".to_owned(),
        format!("CPUQuotaPerSecUSec={unlimited}"),
        "TasksMax=1".to_owned(),
    ];
    assert_eq!(found, expected);
    assert!(resource_properties(&CgroupSettings::default(), CgroupVersion::V2, 255).is_empty());
}

#[test]
fn a_quota_is_rounded_up_to_hundredths_of_a_cpu_in_both_places() {
    // quota, period, per second, quota written
    let cases = [
        (25_000, Some(100_000), 250_000, 25_000),
        (25_500, Some(100_000), 260_000, 26_000),
        (1_000, Some(100_000), 10_000, 1_000),
        (1_100, Some(100_000), 20_000, 2_000),
        (2_501, Some(5_000), 510_000, 2_550),
        (50_001, None, 510_000, 51_000),
        (-1, Some(100_000), u64::MAX, -1),
    ];
    for (quota, period, per_second, written) in cases {
        assert_eq!(quota_per_second(quota, period), per_second, "{quota} over {period:?}");
        let settings = CgroupSettings { cpu_quota: Some(quota), cpu_period: period, ..CgroupSettings::default() };
        assert_eq!(with_whole_quota(&settings).cpu_quota, Some(written), "{quota} over {period:?}");
    }
}

#[test]
fn lists_of_cpus_become_bits_and_versions_numbers() {
    for (list, bits) in [
        ("0", Some(vec![1])),
        ("0-7", Some(vec![255])),
        ("1,9-10", Some(vec![2, 6])),
        ("", None),
        ("3-1", None),
        ("0-99999999", None),
        ("a", None),
    ] {
        assert_eq!(cpu_bits(list), bits, "{list}");
    }
    for (text, number) in [("255.4-1", 255), ("v249", 249), ("\"v245.4-1.fc32\"", 245), ("252", 252), ("", 0)] {
        assert_eq!(version_number(text), number, "{text}");
    }
}

/// Answers like systemd: makes and removes the folder of a slice, and tells when the job is done.
struct StandIn {
    root: PathBuf,
    orders: Arc<Mutex<Vec<String>>>,
    result: &'static str,
    jobs: u32,
}

impl StandIn {
    fn folder(&self, unit: &str) -> PathBuf {
        let name = CgroupName::from_systemd_path(unit).expect("a slice");
        self.root.join(name.path(CgroupDriver::Systemd).trim_start_matches('/'))
    }

    fn note(&self, order: String) {
        self.orders.lock().expect("no panic").push(order);
    }

    async fn end_job(&mut self, emitter: &SignalEmitter<'_>, unit: &str) -> zbus::fdo::Result<OwnedObjectPath> {
        self.jobs += 1;
        let job = OwnedObjectPath::from(ObjectPath::try_from(format!("/job/{}", self.jobs)).expect("a path"));
        // Another job's end comes first, and ours before the answer, as can happen.
        let other = OwnedObjectPath::from(ObjectPath::try_from("/job/other").expect("a path"));
        Self::job_removed(emitter, 0, other, "other.slice".to_owned(), "failed".to_owned()).await?;
        Self::job_removed(emitter, self.jobs, job.clone(), unit.to_owned(), self.result.to_owned()).await?;
        Ok(job)
    }
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum StandInError {
    #[zbus(error)]
    ZBus(zbus::Error),
    UnitExists(String),
    NoSuchUnit(String),
}

impl From<zbus::fdo::Error> for StandInError {
    fn from(error: zbus::fdo::Error) -> Self {
        Self::ZBus(error.into())
    }
}

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl StandIn {
    fn subscribe(&self) {
        self.note("subscribe".to_owned());
    }

    async fn start_transient_unit(
        &mut self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        name: String,
        mode: String,
        properties: Vec<(String, OwnedValue)>,
        _auxiliary: Vec<(String, Vec<(String, OwnedValue)>)>,
    ) -> Result<OwnedObjectPath, StandInError> {
        let names: Vec<_> = properties.iter().map(|(name, _)| name.as_str()).collect();
        self.note(format!("start {name} {mode} {}", names.join(",")));
        if self.folder(&name).exists() {
            return Err(StandInError::UnitExists(name));
        }
        fs::create_dir_all(self.folder(&name)).expect("a folder");
        // The slices above come with it.
        for folder in self.folder(&name).ancestors().take_while(|folder| *folder != self.root) {
            fs::write(folder.join("cgroup.controllers"), "").expect("a file");
            fs::write(folder.join("cgroup.subtree_control"), "").expect("a file");
        }
        Ok(self.end_job(&emitter, &name).await?)
    }

    fn set_unit_properties(&self, name: String, runtime: bool, properties: Vec<(String, OwnedValue)>) {
        let properties: Vec<Property<'_>> =
            properties.iter().map(|(name, value)| (name.as_str(), Value::from(value.clone()))).collect();
        self.note(format!("set {name} {runtime} {}", printed(&properties).join(",")));
    }

    async fn stop_unit(
        &mut self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        name: String,
        mode: String,
    ) -> Result<OwnedObjectPath, StandInError> {
        self.note(format!("stop {name} {mode}"));
        if !self.folder(&name).exists() {
            return Err(StandInError::NoSuchUnit(name));
        }
        fs::remove_dir_all(self.folder(&name)).expect("removed");
        Ok(self.end_job(&emitter, &name).await?)
    }

    fn reset_failed_unit(&self, name: String) {
        self.note(format!("reset {name}"));
    }

    #[zbus(property)]
    fn version(&self) -> String {
        "255.4-1".to_owned()
    }

    #[zbus(signal)]
    async fn job_removed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        job: OwnedObjectPath,
        unit: String,
        result: String,
    ) -> zbus::Result<()>;
}

/// A bus with a stand-in, a manager that speaks to it, and what it was asked.
struct Setup {
    manager: Arc<SystemdCgroups>,
    orders: Arc<Mutex<Vec<String>>>,
    root: TempDir,
    _stand_in: zbus::Connection,
    _bus: Bus,
}

impl Setup {
    async fn open(result: &'static str) -> Option<Self> {
        let Some(mut bus) = Bus::start() else {
            crate::testing::skips::skip("there is no dbus-daemon");
            return None;
        };
        let (address, connection) = (bus.address(), bus.connect().await);
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("cgroup.controllers"), "").expect("a file");
        fs::write(root.path().join("cgroup.subtree_control"), "").expect("a file");
        let orders = Arc::new(Mutex::new(Vec::new()));
        let stand_in = StandIn { root: root.path().to_owned(), orders: orders.clone(), result, jobs: 0 };
        connection.object_server().at("/org/freedesktop/systemd1", stand_in).await.expect("served");
        connection.request_name("org.freedesktop.systemd1").await.expect("named");
        let connect: Connect = Box::new(move || {
            let address = address.clone();
            Box::pin(async move { zbus::connection::Builder::address(address.as_str())?.build().await })
        });
        let mount = root.path().to_str().expect("text");
        let files = CgroupsV2::open_at(mount, CgroupDriver::Systemd).expect("a folder");
        let manager = SystemdCgroups::connect_by(connect, Box::new(files)).await.expect("connected");
        Some(Self { manager: Arc::new(manager), orders, root, _stand_in: connection, _bus: bus })
    }

    async fn call<T: Send + 'static>(&self, call: impl FnOnce(&SystemdCgroups) -> T + Send + 'static) -> T {
        let manager = self.manager.clone();
        crate::platform::host::blocking::run(move || call(&manager)).await
    }

    fn take_orders(&self) -> Vec<String> {
        std::mem::take(&mut self.orders.lock().expect("no panic"))
    }
}

fn pod() -> CgroupName {
    let tree = CgroupTree::new("/", true).expect("a path");
    tree.pod(&PodUid::from("1-2"), QosClass::Burstable).expect("a plain uid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_slice_is_started_set_and_stopped_over_the_bus() {
    let Some(setup) = Setup::open("done").await else { return };
    let settings = CgroupSettings { cpu_shares: Some(512), ..CgroupSettings::default() };
    let once_more = settings.clone();
    let created = setup.call(move |manager| manager.create(&pod(), &settings)).await;
    // The stand-in's folder has no controllers: the played file system says that the file is missing, yet the order was
    // given.
    assert!(matches!(&created, Err(CgroupError::Write { file, .. }) if file.ends_with("cpu.weight")), "{created:?}");
    let unit = "kubepods-burstable-pod1_2.slice";
    let start = format!(
        "start {unit} replace Description,Wants,MemoryAccounting,CPUAccounting,IOAccounting,TasksAccounting,\
         DefaultDependencies"
    );
    let set = format!("set {unit} true CPUWeight=20");
    assert_eq!(setup.take_orders(), ["subscribe".to_owned(), start.clone(), set.clone()]);

    let folder = setup.root.path().join("kubepods.slice/kubepods-burstable.slice").join(unit);
    fs::write(folder.join("cpu.weight"), "").expect("a file");
    setup.call(move |manager| manager.create(&pod(), &once_more)).await.expect("one that exists is only set");
    assert_eq!(fs::read_to_string(folder.join("cpu.weight")).expect("set"), "20");
    assert_eq!(setup.take_orders(), [start, set]);

    setup.call(|manager| manager.destroy(&pod())).await.expect("removed");
    assert!(!folder.exists());
    setup.call(|manager| manager.destroy(&pod())).await.expect("removed already");
    let stop = [format!("stop {unit} replace"), format!("reset {unit}")];
    assert_eq!(setup.take_orders(), [&stop[..], &stop[..]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_fails_is_told() {
    let Some(setup) = Setup::open("failed").await else { return };
    let created = setup.call(|manager| manager.create(&pod(), &CgroupSettings::default())).await;
    let text = created.expect_err("the job failed").to_string();
    assert!(text.starts_with("start unit kubepods-burstable-pod1_2.slice: "), "{text}");
    assert!(text.ends_with(": failed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_broken_connection_is_made_anew() {
    let Some(setup) = Setup::open("done").await else { return };
    let session = setup.manager.session().await.expect("connected");
    session.manager.inner().connection().clone().close().await.expect("closed");
    setup.call(|manager| manager.create(&pod(), &CgroupSettings::default())).await.expect("over a new connection");
    assert_eq!(setup.take_orders().iter().filter(|order| *order == "subscribe").count(), 2);
}
