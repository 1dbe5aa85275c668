//! The instances of each driver: which of them is used, and whose ResourceSlices go (RES-48, RES-49).
//!
//! During an update two instances of a driver are registered. The newest that is connected is used; where none is, the newest.
//! A driver without a connected instance is given 30 s: then what it offers is taken out of the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::logic::formats::go_text::quoted;
use crate::logic::model::time::Steady;
use crate::logic::plugins::plugin::Plugin;

/// How long a driver may be away before its ResourceSlices are deleted.
pub const WIPING_DELAY: Duration = Duration::from_secs(30);

/// A service that a driver is called by. The first is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
pub enum Service {
    /// `v1.DRAPlugin`.
    V1,
    /// `v1beta1.DRAPlugin`.
    V1Beta1,
}

impl Service {
    const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// As drivers list it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1.DRAPlugin",
            Self::V1Beta1 => "v1beta1.DRAPlugin",
        }
    }

    /// The package of the service, by which metrics name its methods.
    pub fn package(self) -> &'static str {
        match self {
            Self::V1 => "k8s.io.kubelet.pkg.apis.dra.v1",
            Self::V1Beta1 => "k8s.io.kubelet.pkg.apis.dra.v1beta1",
        }
    }
}

/// The service that a driver is called by: the first of its list that is known here.
///
/// # Errors
/// Upstream's words when there is none.
pub fn choose(plugin: &Plugin) -> Result<Service, String> {
    let (name, endpoint) = (&plugin.name, &plugin.endpoint);
    let wrong = |why: String| {
        format!("invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {why}")
    };
    if plugin.versions.is_empty() {
        return Err(wrong("empty list of supported gRPC services (aka supported versions)".to_owned()));
    }
    let known = |version: &String| Service::ALL.into_iter().find(|service| service.name() == version);
    plugin.versions.iter().find_map(known).ok_or_else(|| {
        let list = |names: Vec<String>| names.join(" ");
        let theirs = list(plugin.versions.iter().map(|version| quoted(version)).collect());
        let ours = list(Service::ALL.into_iter().map(|service| quoted(service.name())).collect());
        wrong(format!("none of services supported by the plugin ([{theirs}]) are supported by the kubelet ([{ours}])"))
    })
}

/// An instance of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// The service that it is called by.
    pub service: Service,
    /// A connection to it stands.
    pub connected: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    /// The instances of each driver, the newest last.
    instances: BTreeMap<String, Vec<Instance>>,
    /// When the ResourceSlices of drivers that are away go.
    wipes: BTreeMap<String, Steady>,
}

impl Drivers {
    /// Takes an instance in. One at the same socket, which registers again, takes the place of the former.
    ///
    /// # Errors
    /// Upstream's words where another instance has the endpoint.
    pub fn add(&mut self, plugin: Arc<Plugin>, service: Service, now: Steady) -> Result<(), String> {
        let name = plugin.name.clone();
        let others = self.instances.entry(name.clone()).or_default();
        others.retain(|other| other.plugin.socket != plugin.socket);
        let endpoint = &plugin.endpoint;
        if others.iter().any(|other| other.plugin.endpoint == *endpoint) {
            return Err(format!("endpoint {endpoint} already registered for DRA driver plugin {name}"));
        }
        others.push(Instance { plugin, service, connected: false });
        self.settle(&name, now);
        Ok(())
    }

    /// An instance is gone.
    pub fn remove(&mut self, plugin: &Plugin, now: Steady) {
        if let Some(instances) = self.instances.get_mut(&plugin.name) {
            instances.retain(|instance| instance.plugin.socket != plugin.socket);
            if instances.is_empty() {
                self.instances.remove(&plugin.name);
            }
            self.settle(&plugin.name, now);
        }
    }

    /// The connection to an instance stands by now, or has ended.
    pub fn set_connected(&mut self, plugin: &Plugin, connected: bool, now: Steady) {
        let instances = self.instances.get_mut(&plugin.name).into_iter().flatten();
        if let Some(instance) = instances.into_iter().find(|instance| instance.plugin.attempt == plugin.attempt) {
            instance.connected = connected;
            self.settle(&plugin.name, now);
        }
    }

    fn settle(&mut self, name: &str, now: Steady) {
        if self.instances.get(name).into_iter().flatten().any(|instance| instance.connected) {
            self.wipes.remove(name);
        } else {
            self.wipes.entry(name.to_owned()).or_insert_with(|| now.plus(WIPING_DELAY));
        }
    }

    /// The instance that is used.
    pub fn get(&self, name: &str) -> Option<&Instance> {
        let instances = self.instances.get(name)?;
        instances.iter().rev().find(|instance| instance.connected).or(instances.last())
    }

    /// All instances.
    pub fn all(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values().flatten()
    }

    /// Drivers whose time is over: their ResourceSlices are to be deleted, once.
    pub fn take_wipes(&mut self, now: Steady) -> Vec<String> {
        let due: Vec<String> = self.wipes.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        self.wipes.retain(|_, at| *at > now);
        due
    }

    /// When the next one's time is over.
    pub fn wake_at(&self) -> Option<Steady> {
        self.wipes.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::plugins::plugin::PluginKind;

    fn plugin(socket: &str, attempt: u64, versions: &[&str]) -> Arc<Plugin> {
        Arc::new(Plugin {
            socket: format!("/r/{socket}"),
            attempt,
            kind: PluginKind::Dra,
            name: "gpu.example.com".to_owned(),
            endpoint: format!("/p/{socket}"),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        })
    }

    fn at(seconds: u64) -> Steady {
        Steady::at(Duration::from_secs(seconds))
    }

    /// RES-48.
    #[test]
    fn the_first_service_that_both_know_is_used() {
        let prefix = "invalid supported gRPC versions of DRA driver plugin gpu.example.com at endpoint /p/a: ";
        for (versions, expected) in [
            (vec!["v1.DRAPlugin", "v1beta1.DRAPlugin"], Ok(Service::V1)),
            (vec!["v1alpha1.DRAResourceHealth", "v1beta1.DRAPlugin", "v1.DRAPlugin"], Ok(Service::V1Beta1)),
            (vec![], Err("empty list of supported gRPC services (aka supported versions)")),
            (
                vec!["1.0.0", "v2.DRAPlugin"],
                Err(
                    "none of services supported by the plugin ([\"1.0.0\" \"v2.DRAPlugin\"]) are supported by the kubelet \
                     ([\"v1.DRAPlugin\" \"v1beta1.DRAPlugin\"])",
                ),
            ),
        ] {
            assert_eq!(choose(&plugin("a", 1, &versions)), expected.map_err(|why| format!("{prefix}{why}")));
        }
    }

    /// RES-48.
    #[test]
    fn the_newest_connected_instance_is_used_during_an_update() {
        let mut drivers = Drivers::default();
        let (old, new) = (plugin("old", 1, &[]), plugin("new", 2, &[]));
        let used = |drivers: &Drivers| drivers.get("gpu.example.com").map(|found| found.plugin.attempt);
        assert_eq!(used(&drivers), None);
        drivers.add(Arc::clone(&old), Service::V1, at(0)).expect("new");
        assert_eq!(used(&drivers), Some(1), "it is connected with the first call");
        drivers.set_connected(&old, true, at(0));
        drivers.add(Arc::clone(&new), Service::V1, at(1)).expect("new");
        assert_eq!(used(&drivers), Some(1), "the new one is not there yet");
        drivers.set_connected(&new, true, at(2));
        assert_eq!(used(&drivers), Some(2));
        drivers.remove(&new, at(3));
        assert_eq!((used(&drivers), drivers.wake_at()), (Some(1), None));
        let thief = Arc::new(Plugin { socket: "/r/thief".to_owned(), attempt: 4, ..(*old).clone() });
        let refused = drivers.add(thief, Service::V1, at(4)).expect_err("another has it");
        assert_eq!(refused, "endpoint /p/old already registered for DRA driver plugin gpu.example.com");
        let again = Arc::new(Plugin { attempt: 5, ..(*old).clone() });
        drivers.add(again, Service::V1Beta1, at(5)).expect("the same socket");
        assert_eq!(drivers.all().count(), 1);
    }

    /// RES-49.
    #[test]
    fn a_driver_that_is_away_for_half_a_minute_loses_its_slices() {
        let mut drivers = Drivers::default();
        let driver = plugin("a", 1, &[]);
        drivers.add(Arc::clone(&driver), Service::V1, at(0)).expect("new");
        drivers.set_connected(&driver, true, at(1));
        assert_eq!(drivers.wake_at(), None);
        drivers.set_connected(&driver, false, at(10));
        drivers.remove(&driver, at(20));
        assert_eq!(drivers.wake_at(), Some(at(40)), "the first loss counts");
        let again = plugin("a", 2, &[]);
        drivers.add(Arc::clone(&again), Service::V1, at(39)).expect("new");
        drivers.set_connected(&again, true, at(39));
        assert_eq!((drivers.take_wipes(at(41)), drivers.wake_at()), (vec![], None), "it came back in time");
        drivers.remove(&again, at(50));
        assert_eq!(drivers.take_wipes(at(79)), Vec::<String>::new());
        assert_eq!(drivers.take_wipes(at(80)), ["gpu.example.com"]);
        assert_eq!(drivers.take_wipes(at(200)), Vec::<String>::new(), "once");
    }
}
