//! Control groups as systemd's slices: asked for over D-Bus, so that systemd knows them and a reload keeps them.
//!
//! Owned by the resource manager through [`CgroupManager`]. Keeps one connection, made anew when it breaks. The file
//! system's form beside it sets what systemd has no property for, and removes what systemd leaves.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use zbus::zvariant::{OwnedObjectPath, Value};

use super::{CgroupError, CgroupManager, FirstError, kill, open_file_system};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CPU_PERIOD_DEFAULT_US, CgroupSettings, CgroupVersion, shares_to_weight};

/// How long systemd may take for one order; upstream's number.
const ORDER_TIME_MAX: Duration = Duration::from_secs(30);
/// systemd's infinity.
const UNLIMITED: u64 = u64::MAX;
/// systemd counts CPU time in hundredths of a CPU: microseconds per second of one of them.
const QUOTA_STEP_US: u64 = 10_000;
/// The first systemd that takes `CPUQuotaPeriodUSec`.
const VERSION_WITH_QUOTA_PERIOD: u32 = 242;
/// The first systemd that takes `AllowedCPUs`.
const VERSION_WITH_CPUSET: u32 = 244;
/// Highest CPU number taken from a list; the kernel's bound.
const CPU_MAX: usize = 8191;

type Property<'a> = (&'a str, Value<'a>);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1",
    gen_blocking = false
)]
trait Manager {
    fn subscribe(&self) -> zbus::Result<()>;
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[Property<'_>],
        auxiliary: &[(&str, Vec<Property<'_>>)],
    ) -> zbus::Result<OwnedObjectPath>;
    fn set_unit_properties(&self, name: &str, runtime: bool, properties: &[Property<'_>]) -> zbus::Result<()>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
    #[zbus(property)]
    fn version(&self) -> zbus::Result<String>;
    #[zbus(signal)]
    fn job_removed(&self, id: u32, job: OwnedObjectPath, unit: String, result: String) -> zbus::Result<()>;
}

/// Gives a new connection to systemd.
type Connect = Box<dyn Fn() -> BoxFuture<'static, zbus::Result<zbus::Connection>> + Send + Sync>;

/// A connection and what was learnt over it.
#[derive(Clone)]
struct Session {
    manager: ManagerProxy<'static>,
    version: u32,
}

/// The slices of this host.
///
/// Its calls wait for systemd, on the runtime it was made on: they must come from that runtime's threads for blocking
/// calls ([`crate::platform::host::blocking`], several threads), never from a task.
pub struct SystemdCgroups {
    files: Box<dyn CgroupManager>,
    runtime: Handle,
    connect: Connect,
    session: Mutex<Option<Session>>,
}

impl SystemdCgroups {
    /// Connects to systemd over the system's message bus.
    ///
    /// # Errors
    /// A systemd that cannot be reached, or control groups that cannot be opened.
    pub async fn connect() -> Result<Self, CgroupError> {
        let connect: Connect = Box::new(|| Box::pin(zbus::Connection::system()));
        Self::connect_by(connect, open_file_system(CgroupDriver::Systemd)?).await
    }

    async fn connect_by(connect: Connect, files: Box<dyn CgroupManager>) -> Result<Self, CgroupError> {
        let found = Self { files, runtime: Handle::current(), connect, session: Mutex::new(None) };
        found.session().await.map_err(|error| failed("connect to the manager of", "-.slice", &error))?;
        Ok(found)
    }

    async fn session(&self) -> zbus::Result<Session> {
        if let Some(session) = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(session);
        }
        let connection = (self.connect)().await?;
        let manager =
            ManagerProxy::builder(&connection).cache_properties(zbus::proxy::CacheProperties::No).build().await?;
        // Without a subscriber systemd tells nobody that a job has ended.
        manager.subscribe().await?;
        let session = Session { version: version_number(&manager.version().await?), manager };
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    /// Carries out one order within its time; over a new connection when the old one turns out to be broken.
    fn order<'a, F>(&'a self, action: &'static str, unit: &'a str, order: F) -> Result<(), CgroupError>
    where
        F: Fn(Session) -> BoxFuture<'a, zbus::Result<()>>,
    {
        let attempt = || async { order(self.session().await?).await };
        let within_time = async {
            match tokio::time::timeout(ORDER_TIME_MAX, attempt()).await {
                Ok(Err(error)) if is_disconnected(&error) => {
                    *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    tokio::time::timeout(ORDER_TIME_MAX, attempt()).await
                }
                outcome => outcome,
            }
        };
        match self.runtime.block_on(within_time) {
            Ok(outcome) => outcome.map_err(|error| failed(action, unit, &error)),
            Err(_) => Err(CgroupError::Systemd {
                action,
                unit: unit.to_owned(),
                reason: format!("no answer within {} s", ORDER_TIME_MAX.as_secs()),
            }),
        }
    }

    fn start(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let Some(parent) = name.parent() else { return Ok(()) };
        let (unit, parent, version) = (name.slice(), parent.slice(), self.version());
        self.order("start", &unit, |session| {
            let (unit, parent) = (unit.clone(), parent.clone());
            Box::pin(async move {
                let mut jobs = session.manager.receive_job_removed().await?;
                let properties = slice_properties(&unit, &parent, version);
                match session.manager.start_transient_unit(&unit, "replace", &properties, &[]).await {
                    Ok(job) => wait_for(&mut jobs, &job, &unit).await,
                    // Also one that an administrator made.
                    Err(error) if has_name(&error, "UnitExists") => Ok(()),
                    Err(error) => Err(error),
                }
            })
        })
    }

    fn stop(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let unit = name.slice();
        self.order("stop", &unit, |session| {
            let unit = unit.clone();
            Box::pin(async move {
                let mut jobs = session.manager.receive_job_removed().await?;
                let outcome = match session.manager.stop_unit(&unit, "replace").await {
                    Ok(job) => wait_for(&mut jobs, &job, &unit).await,
                    Err(error) if has_name(&error, "NoSuchUnit") => Ok(()),
                    Err(error) => Err(error),
                };
                // A failed unit stays until it is reset; one that did not fail refuses, which is well.
                let _ = session.manager.reset_failed_unit(&unit).await;
                outcome
            })
        })
    }

    fn set(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        let (unit, version) = (name.slice(), self.version());
        self.order("set properties of", &unit, |session| {
            let (unit, settings) = (unit.clone(), settings.clone());
            Box::pin(async move {
                let properties = resource_properties(&settings, version, session.version);
                if properties.is_empty() {
                    return Ok(());
                }
                session.manager.set_unit_properties(&unit, true, &properties).await
            })
        })
    }
}

impl CgroupManager for SystemdCgroups {
    fn version(&self) -> CgroupVersion {
        self.files.version()
    }

    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Systemd
    }

    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.files.validate(name)
    }

    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        self.start(name)?;
        let settings = with_whole_quota(settings);
        let mut first = FirstError::default();
        first.note(self.set(name, &settings));
        first.note(self.files.create(name, &settings));
        first.finish()
    }

    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        let settings = with_whole_quota(settings);
        let mut first = FirstError::default();
        first.note(self.set(name, &settings));
        first.note(self.files.update(name, &settings));
        first.finish()
    }

    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError> {
        kill::refuse_own(name, &self.files.pids(name)?)?;
        kill::kill_all(name, || self.files.pids(name))?;
        let mut first = FirstError::default();
        first.note(self.stop(name));
        first.note(self.files.destroy(name));
        first.finish()
    }

    fn pids(&self, name: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        self.files.pids(name)
    }

    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        self.files.list_pods(tree)
    }

    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        self.files.read(name)
    }

    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError> {
        self.files.memory_usage(name)
    }
}

async fn wait_for(jobs: &mut JobRemovedStream, job: &OwnedObjectPath, unit: &str) -> zbus::Result<()> {
    while let Some(signal) = jobs.next().await {
        let ended = signal.args()?;
        if ended.job == *job {
            let well = ended.result == "done" || ended.result == "skipped";
            return if well { Ok(()) } else { Err(zbus::Error::Failure(format!("job of {unit}: {}", ended.result))) };
        }
    }
    Err(zbus::Error::InputOutput(std::sync::Arc::new(std::io::ErrorKind::BrokenPipe.into())))
}

fn failed(action: &'static str, unit: &str, error: &zbus::Error) -> CgroupError {
    CgroupError::Systemd { action, unit: unit.to_owned(), reason: error.to_string() }
}

fn is_disconnected(error: &zbus::Error) -> bool {
    matches!(error, zbus::Error::InputOutput(_))
}

/// Whether it is systemd's error of this name.
fn has_name(error: &zbus::Error, name: &str) -> bool {
    let prefix = "org.freedesktop.systemd1.";
    matches!(error, zbus::Error::MethodError(found, _, _) if found.as_str().strip_prefix(prefix) == Some(name))
}

/// The number in `255.4-1`, `v249`; 0 when there is none, which counts as too old for anything newer.
fn version_number(text: &str) -> u32 {
    let digits = text.trim_start_matches(['"', 'v']);
    let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The properties of a slice. Its place follows from its name; slices cannot be delegated, only scopes and services can.
fn slice_properties<'a>(unit: &str, parent: &str, version: CgroupVersion) -> Vec<Property<'a>> {
    let io_accounting = match version {
        CgroupVersion::V1 => "BlockIOAccounting",
        CgroupVersion::V2 => "IOAccounting",
    };
    let mut properties = vec![
        ("Description", Value::from(format!("Kubernetes pods: {unit}"))),
        ("Wants", Value::from(vec![parent.to_owned()])),
    ];
    // Accounting turns the controllers on; dependencies of its own would stop it early at shutdown.
    let switches = ["MemoryAccounting", "CPUAccounting", io_accounting, "TasksAccounting"];
    properties.extend(switches.map(|name| (name, Value::from(true))));
    properties.push(("DefaultDependencies", Value::from(false)));
    properties
}

/// The properties for what systemd can set; the rest is written as files.
fn resource_properties<'a>(settings: &CgroupSettings, version: CgroupVersion, systemd: u32) -> Vec<Property<'a>> {
    let mut properties = Vec::new();
    let mut add = |name: &'a str, value: u64| properties.push((name, Value::from(value)));
    let memory_max = if version == CgroupVersion::V1 { "MemoryLimit" } else { "MemoryMax" };
    if let Some(limit) = settings.memory_limit.filter(|limit| *limit != 0) {
        add(memory_max, or_unlimited(limit));
    }
    match (settings.cpu_shares, version) {
        (Some(shares), CgroupVersion::V1) => add("CPUShares", shares),
        (Some(shares), CgroupVersion::V2) => add("CPUWeight", shares_to_weight(shares)),
        (None, _) => {}
    }
    let period = settings.cpu_period.filter(|period| *period != 0);
    if let Some(period) = period.filter(|_| systemd >= VERSION_WITH_QUOTA_PERIOD) {
        add("CPUQuotaPeriodUSec", period);
    }
    match settings.cpu_quota.unwrap_or(0) {
        0 if period.is_none() => {}
        quota => add("CPUQuotaPerSecUSec", quota_per_second(quota, period)),
    }
    if let Some(limit) = settings.pids_max {
        // systemd does not take zero; one is as little as a process needs to be refused.
        add("TasksMax", or_unlimited(limit).max(1));
    }
    for (file, value) in &settings.unified {
        let name = match file.as_str() {
            "memory.min" => "MemoryMin",
            "memory.low" => "MemoryLow",
            "memory.high" => "MemoryHigh",
            "memory.swap.max" => "MemorySwapMax",
            _ => continue,
        };
        if let Some(value) = if value == "max" { Some(UNLIMITED) } else { value.parse().ok() } {
            add(name, value);
        }
    }
    let cpus = settings.cpuset_cpus.as_deref().filter(|_| systemd >= VERSION_WITH_CPUSET).and_then(cpu_bits);
    properties.extend(cpus.map(|bits| ("AllowedCPUs", Value::from(bits))));
    properties
}

fn or_unlimited(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(UNLIMITED)
}

/// CPU time per second, in microseconds, rounded up to what systemd can count.
fn quota_per_second(quota: i64, period: Option<u64>) -> u64 {
    let Ok(quota @ 1..) = u64::try_from(quota) else { return UNLIMITED };
    let per_second = quota.saturating_mul(1_000_000) / period.unwrap_or(CPU_PERIOD_DEFAULT_US);
    per_second.div_ceil(QUOTA_STEP_US).saturating_mul(QUOTA_STEP_US)
}

/// The same settings with the quota that systemd will set, so that its value and the file's do not take turns.
fn with_whole_quota(settings: &CgroupSettings) -> CgroupSettings {
    let mut settings = settings.clone();
    if let Some(quota) = settings.cpu_quota.as_mut().filter(|quota| **quota > 0) {
        let period = settings.cpu_period.filter(|period| *period != 0);
        let per_second = u128::from(quota_per_second(*quota, period));
        let rounded = per_second * u128::from(period.unwrap_or(CPU_PERIOD_DEFAULT_US)) / 1_000_000;
        *quota = i64::try_from(rounded).unwrap_or(i64::MAX).max(*quota);
    }
    settings
}

/// A list such as `0-3,8` as bits, eight CPUs a byte; `None` when it is no such list.
fn cpu_bits(list: &str) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for range in list.split(',').map(str::trim) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last > CPU_MAX {
            return None;
        }
        for cpu in first..=last {
            if bits.len() <= cpu / 8 {
                bits.resize(cpu / 8 + 1, 0);
            }
            bits[cpu / 8] |= 1 << (cpu % 8);
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests;
