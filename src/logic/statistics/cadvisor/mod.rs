//! `/metrics/cadvisor`: upstream's set, its labels and its classes of series (OBS-20, OBS-21, OBS-22, OBS-23).
//!
//! A page is written family by family, so that nobody has to hold it whole. Left out are the load averages and task
//! states, which upstream shows as zeros. Times of disks are seconds, where upstream divides milliseconds by a thousand
//! million.

mod families;
mod machine;
pub mod told;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::families::{FAMILIES, Family, Source};
use super::exposition::{Exposition, Value, labels, stamp};
use super::figures::{DiskFigures, Interface, MountedDevice};
use super::sample::{Group, Snapshot};

/// The kind of one line's group.
#[derive(Clone, Copy, Debug)]
enum Place {
    Node,
    System(usize),
    Pod(usize),
    Sandbox(usize),
    Container(usize, usize),
}

/// A group with what all its lines have: labels, and the time at which it was read. Made once for all families.
struct Series {
    place: Place,
    labels: String,
    stamp: String,
}

/// The page of one snapshot.
pub struct Page {
    snapshot: Arc<Snapshot>,
    series: Vec<Series>,
    /// Whether the exposition has pressure.
    pressure: bool,
    next: usize,
}

impl Page {
    /// The page of a snapshot that has everything. Pressure is there under its gate, `KubeletPSI`, and where the kernel
    /// has figures for groups: with control groups of the second generation.
    pub fn new(snapshot: Arc<Snapshot>, gate: bool) -> Self {
        let series = series(&snapshot);
        let mut systems = snapshot.sample.systems.iter();
        let pressure = gate && systems.any(|(_, group)| group.figures.cpu.is_some_and(|cpu| cpu.pressure.is_some()));
        Self { snapshot, series, pressure, next: 0 }
    }

    fn one(&self, place: Place) -> Option<One<'_>> {
        let sample = &self.snapshot.sample;
        let disks = &sample.node.disks[..];
        let of = |group, interfaces, devices| Some(One { group, interfaces, devices, disks });
        match place {
            Place::Node => of(&sample.node.group, &sample.node.interfaces, &sample.node.devices),
            Place::System(index) => of(&sample.systems[index].1, &[], &[]),
            Place::Pod(index) => of(sample.pods[index].group.as_ref()?, &[], &[]),
            Place::Sandbox(index) => {
                let sandbox = &sample.pods[index].sandbox;
                of(sandbox.group.as_ref()?, sandbox.interfaces.as_deref().unwrap_or_default(), &[])
            }
            Place::Container(pod, index) => of(sample.pods[pod].containers[index].group.as_ref()?, &[], &[]),
        }
    }

    fn write(&self, family: &Family) -> String {
        let mut out = Exposition::default();
        if matches!(family.source, Source::Pressure(_)) && !self.pressure {
            return out.into_text();
        }
        out.family(family.name, family.help, family.kind);
        for Series { place, labels, stamp } in &self.series {
            if let Some(one) = self.one(*place) {
                let mut lines = Lines { out: &mut out, labels, stamp };
                write(&family.source, &one, &mut lines);
            }
        }
        out.into_text()
    }
}

/// The families of the page, in the order of their names, then those of the machine. Empty ones are left out.
impl Iterator for Page {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let index = self.next;
            self.next += 1;
            let text = match FAMILIES.get(index) {
                Some(family) => self.write(family),
                None if index == FAMILIES.len() => return Some(machine::text(&self.snapshot)),
                None => return None,
            };
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}

/// One group, with what hangs on it.
struct One<'a> {
    group: &'a Group,
    interfaces: &'a [Interface],
    /// Of the node alone.
    devices: &'a [MountedDevice],
    /// For the names of devices.
    disks: &'a [DiskFigures],
}

impl One<'_> {
    fn device_name(&self, major: u32, minor: u32) -> Option<String> {
        let disk = self.disks.iter().find(|disk| (disk.major, disk.minor) == (major, minor))?;
        Some(format!("/dev/{}", disk.name))
    }
}

/// Where the samples of one group in one family go.
struct Lines<'a> {
    out: &'a mut Exposition<'static>,
    labels: &'a str,
    stamp: &'a str,
}

impl Lines<'_> {
    fn add(&mut self, value: impl Into<Value>) {
        self.out.stamped(self.labels, &[], value.into(), self.stamp);
    }

    fn add_with(&mut self, more: &[(&str, &str)], value: impl Into<Value>) {
        self.out.stamped(self.labels, more, value.into(), self.stamp);
    }
}

fn write(source: &Source, one: &One<'_>, lines: &mut Lines<'_>) {
    let figures = &one.group.figures;
    match source {
        Source::Cpu(value) => {
            if let Some(cpu) = &figures.cpu {
                lines.add(value(cpu));
            }
        }
        Source::Quota(value) => {
            let limited = figures.cpu_limits.is_some_and(|limits| limits.quota_us != 0);
            if let Some(cpu) = figures.cpu.as_ref().filter(|_| limited) {
                lines.add(value(cpu));
            }
        }
        Source::Memory(value) => {
            if let Some(memory) = &figures.memory {
                lines.add(value(memory));
            }
        }
        Source::Processes(value) => {
            if let Some(value) = figures.processes.as_ref().and_then(value) {
                lines.add(value);
            }
        }
        Source::Pressure(total_us) => {
            // A group whose pressure is turned off has none.
            lines.add(total_us(figures).unwrap_or(0) as f64 / 1e6);
        }
        Source::Network(value) => {
            for interface in one.interfaces {
                lines.add_with(&[("interface", &interface.name)], value(interface));
            }
        }
        Source::Device(of_group, of_disk) => write_devices(one, lines, *of_group, *of_disk),
        Source::FileSystem(value) => {
            for device in one.devices {
                lines.add_with(&[("device", &device.device)], value(&device.file_system));
            }
        }
        Source::Settings(value) => {
            // A value that was set, as opposed to measured, has no time.
            lines.stamp = "";
            if let Some(value) = value(figures) {
                lines.add(value);
            }
        }
        Source::Own(write) => write(one, lines),
    }
}

/// The exposition names the disk of a device that the node has mounted; of others what the group did.
fn write_devices(
    one: &One<'_>,
    lines: &mut Lines<'_>,
    of_group: Option<families::OfGroup>,
    of_disk: Option<families::OfDisk>,
) {
    let mut told = BTreeSet::new();
    if let Some(value) = of_disk {
        for device in one.devices {
            if let Some(disk) = device.disk.as_ref().filter(|_| told.insert(device.device.clone())) {
                lines.add_with(&[("device", &device.device)], value(disk));
            }
        }
    }
    let Some(value) = of_group else { return };
    for device in one.group.figures.io.iter().flat_map(|io| &io.devices) {
        let name = one.device_name(device.major, device.minor);
        if let Some(name) = name.filter(|name| told.insert(name.clone())) {
            lines.add_with(&[("device", &name)], value(device));
        }
    }
}

/// All groups, with the labels that dashboards tell their classes by.
fn series(snapshot: &Snapshot) -> Vec<Series> {
    let sample = &snapshot.sample;
    let base = |place, group: &Group, (name, image): (&str, &str), container: &str, pod: (&str, &str)| {
        let (namespace, pod) = pod;
        let labels = labels(&[
            ("container", container),
            ("id", &group.path),
            ("image", image),
            ("name", name),
            ("namespace", namespace),
            ("pod", pod),
        ]);
        Series { place, labels, stamp: stamp(group.figures.at) }
    };
    let (none, nobody) = (("", ""), ("", ""));
    let mut series = vec![base(Place::Node, &sample.node.group, none, "", nobody)];
    // A daemon may live in a group that the list has already.
    let mut paths = BTreeSet::from(["/"]);
    for (index, (_, group)) in sample.systems.iter().enumerate() {
        if paths.insert(&group.path) {
            series.push(base(Place::System(index), group, none, "", nobody));
        }
    }
    for (index, pod) in sample.pods.iter().enumerate() {
        let whose = (pod.namespace.as_str(), pod.name.as_str());
        if let Some(group) = &pod.group {
            series.push(base(Place::Pod(index), group, none, "", whose));
        }
        if let Some(group) = &pod.sandbox.group {
            // Rules choose by an image that is not empty.
            let image = Some(snapshot.sandbox_image.as_str()).filter(|image| !image.is_empty()).unwrap_or("pause");
            series.push(base(Place::Sandbox(index), group, (pod.sandbox.id.as_str(), image), "", whose));
        }
        for (number, container) in pod.containers.iter().enumerate() {
            if let Some(group) = &container.group {
                let named = (container.id.as_str(), container.image.as_str());
                series.push(base(Place::Container(index, number), group, named, &container.name, whose));
            }
        }
    }
    series
}

#[cfg(test)]
mod tests;
