//! How the devices of drivers are (RES-51; KEP-4680): what drivers told last, and for how long that holds.
//!
//! Owned by `ClaimManager`; upstream's `dra_health_state` is its file, in upstream's form. A word that is older than its limit
//! says nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::logic::model::time::Moment;

/// The file's name in the root directory.
pub const FILE_NAME: &str = "dra_health_state";
/// For how long a word holds where the driver does not say.
pub const HOLDS: Duration = Duration::from_secs(30);
/// The longest message, in bytes.
const MESSAGE_MAX: usize = 1024;

/// How a device is; the names are the API's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, Serialize, Deserialize)]
pub enum Health {
    /// It works.
    Healthy,
    /// It does not work as it should.
    Unhealthy,
    /// Nobody can say.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A driver's word about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHealth {
    /// The pool that it is of.
    pub pool_name: String,
    /// Its name in the pool.
    pub device_name: String,
    /// How it is.
    pub health: Health,
    /// For how long that holds, in seconds; 0 and less for [`HOLDS`].
    pub holds_seconds: i64,
    /// More about it.
    pub message: String,
}

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    pool_name: String,
    device_name: String,
    health: Health,
    /// RFC 3339.
    last_updated: jiff::Timestamp,
    /// In nanoseconds; 0 for [`HOLDS`].
    #[serde(default)]
    health_check_timeout: i64,
    #[serde(default)]
    message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Driver {
    #[serde(default)]
    devices: BTreeMap<String, Entry>,
}

/// The word of one instance of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    driver: String,
    at: Moment,
    devices: Vec<DeviceHealth>,
}

/// See the module. A driver has two instances during its update: what one of them said stands when the other goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthBook {
    drivers: BTreeMap<String, Driver>,
    /// By the number of the instance; not in the file.
    words: BTreeMap<u64, Word>,
}

/// A device: driver, pool, name.
pub type DeviceName = (String, String, String);

impl Entry {
    fn is_old(&self, now: Moment) -> bool {
        let holds = u64::try_from(self.health_check_timeout).ok().filter(|nanos| *nanos > 0);
        now.since(Moment::from_timestamp(self.last_updated)) > holds.map_or(HOLDS, Duration::from_nanos)
    }
}

/// The beginning of a message, with dots where it was cut.
fn cut(message: &str) -> String {
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let end = (0..=MESSAGE_MAX - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &message[..end])
}

impl HealthBook {
    /// Reads the file. One that cannot be read says nothing.
    fn parse(bytes: &[u8]) -> Self {
        Self { drivers: serde_json::from_slice(bytes).unwrap_or_default(), words: BTreeMap::new() }
    }

    /// Takes the file of an earlier agent. The words of drivers since then stand over it.
    pub fn restore(&mut self, bytes: &[u8]) {
        self.drivers = Self::parse(bytes).drivers;
        let mut words: Vec<Word> = self.words.values().cloned().collect();
        words.sort_by_key(|word| word.at);
        words.into_iter().for_each(|word| drop(self.note(word)));
    }

    /// Prints it as a file.
    pub fn print(&self) -> Vec<u8> {
        serde_json::to_vec(&self.drivers).unwrap_or_default()
    }

    /// The health of a device, and more about it.
    pub fn of(&self, driver: &str, pool: &str, device: &str, now: Moment) -> (Health, Option<&str>) {
        let entry = self.drivers.get(driver).and_then(|driver| driver.devices.get(&format!("{pool}/{device}")));
        match entry.filter(|entry| !entry.is_old(now)) {
            Some(entry) => (entry.health, Some(entry.message.as_str()).filter(|message| !message.is_empty())),
            None => (Health::Unknown, None),
        }
    }

    /// Takes the word of a driver's instance about some devices; gives those that are another than before.
    pub fn take(
        &mut self,
        driver: &str,
        instance: u64,
        devices: Vec<DeviceHealth>,
        now: Moment,
    ) -> BTreeSet<DeviceName> {
        let word = Word { driver: driver.to_owned(), at: now, devices };
        let changed = self.note(word.clone());
        self.words.insert(instance, word);
        changed
    }

    fn note(&mut self, Word { driver, at: now, devices }: Word) -> BTreeSet<DeviceName> {
        let known = &mut self.drivers.entry(driver.clone()).or_default().devices;
        let mut changed = BTreeSet::new();
        for device in devices {
            let nanos = device.holds_seconds.max(0).saturating_mul(1_000_000_000);
            let entry = Entry {
                health: device.health,
                last_updated: now.to_timestamp(),
                health_check_timeout: if nanos == 0 { 30_000_000_000 } else { nanos },
                message: cut(&device.message),
                pool_name: device.pool_name,
                device_name: device.device_name,
            };
            let key = format!("{}/{}", entry.pool_name, entry.device_name);
            let same = |old: &Entry| {
                (old.health, &old.message, old.health_check_timeout)
                    == (entry.health, &entry.message, entry.health_check_timeout)
            };
            if !known.get(&key).is_some_and(same) {
                changed.insert((driver.clone(), entry.pool_name.clone(), entry.device_name.clone()));
            }
            known.insert(key, entry);
        }
        changed
    }

    /// The word of an instance holds no more: its stream has ended, or it is gone. That of the driver's other instances
    /// stays, and the newest of them counts. Gives all devices that the driver spoke of.
    pub fn forget(&mut self, driver: &str, instance: u64) -> BTreeSet<DeviceName> {
        self.words.remove(&instance);
        let gone = self.drivers.remove(driver).unwrap_or_default().devices;
        let mut spoken_of: BTreeSet<DeviceName> =
            gone.into_values().map(|entry| (driver.to_owned(), entry.pool_name, entry.device_name)).collect();
        let mut left: Vec<Word> = self.words.values().filter(|word| word.driver == driver).cloned().collect();
        left.sort_by_key(|word| word.at);
        left.into_iter().for_each(|word| spoken_of.extend(self.note(word)));
        spoken_of
    }

    /// Forgets words that are too old; gives their devices.
    pub fn expire(&mut self, now: Moment) -> BTreeSet<DeviceName> {
        let mut gone = BTreeSet::new();
        for (name, driver) in &mut self.drivers {
            for entry in
                driver.devices.values_mut().filter(|entry| entry.is_old(now) && entry.health != Health::Unknown)
            {
                (entry.health, entry.message, entry.last_updated) =
                    (Health::Unknown, String::new(), now.to_timestamp());
                gone.insert((name.clone(), entry.pool_name.clone(), entry.device_name.clone()));
            }
        }
        gone
    }

    /// Whether some word will be too old one day.
    pub fn may_expire(&self) -> bool {
        self.drivers.values().flat_map(|driver| driver.devices.values()).any(|entry| entry.health != Health::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn told(device: &str, health: Health, holds_seconds: i64, message: &str) -> DeviceHealth {
        let (pool_name, device_name) = ("pool".to_owned(), device.to_owned());
        DeviceHealth { pool_name, device_name, health, holds_seconds, message: message.to_owned() }
    }

    /// RES-51: an update of a driver has two instances for a while, and either may be the one that goes.
    #[test]
    fn the_word_of_one_instance_stands_when_the_other_goes() {
        for (goes, expected) in [(1, Health::Unhealthy), (2, Health::Healthy)] {
            let mut book = HealthBook::default();
            book.take("d", 1, vec![told("a", Health::Healthy, 100, ""), told("old", Health::Healthy, 100, "")], at(0));
            book.take("d", 2, vec![told("a", Health::Unhealthy, 100, "hot")], at(50));
            book.take("other", 3, vec![told("a", Health::Healthy, 100, "")], at(0));
            assert_eq!(book.of("d", "pool", "a", at(60)).0, Health::Unhealthy, "the newest word");
            assert_eq!(book.forget("d", goes).len(), 2, "both are looked at again");
            assert_eq!(book.of("d", "pool", "a", at(60)).0, expected, "without {goes}");
            let old = if goes == 1 { Health::Unknown } else { Health::Healthy };
            assert_eq!(book.of("d", "pool", "old", at(60)).0, old, "without {goes}");
            // It is as old as it was.
            let later = if goes == 1 { Health::Unhealthy } else { Health::Unknown };
            assert_eq!(book.of("d", "pool", "a", at(120)).0, later, "without {goes}");
            book.forget("d", 3 - goes);
            assert_eq!(book.of("d", "pool", "a", at(60)).0, Health::Unknown);
            assert_eq!(book.of("other", "pool", "a", at(60)).0, Health::Healthy);
        }
    }

    /// RES-51.
    #[test]
    fn a_word_holds_for_its_time_and_then_nobody_can_say() {
        let mut book = HealthBook::default();
        let words = vec![told("a", Health::Healthy, 0, ""), told("b", Health::Unhealthy, 100, "hot")];
        assert_eq!(book.take("d", 1, words.clone(), at(0)).len(), 2);
        assert_eq!(book.take("d", 1, words, at(10)).len(), 0, "the same again");
        for (device, now, expected) in [
            ("a", 10, (Health::Healthy, None)),
            ("a", 40, (Health::Healthy, None)),
            ("a", 41, (Health::Unknown, None)),
            ("b", 110, (Health::Unhealthy, Some("hot"))),
            ("b", 111, (Health::Unknown, None)),
            ("c", 10, (Health::Unknown, None)),
        ] {
            assert_eq!(book.of("d", "pool", device, at(now)), expected, "{device} at {now}");
        }
        let name = |device: &str| ("d".to_owned(), "pool".to_owned(), device.to_owned());
        assert_eq!(book.expire(at(41)), BTreeSet::from([name("a")]));
        assert_eq!((book.expire(at(42)), book.may_expire()), (BTreeSet::new(), true), "once");
        assert_eq!(book.forget("d", 1), BTreeSet::from([name("a"), name("b")]));
        assert!(!book.may_expire());
    }

    /// RES-51.
    #[test]
    fn a_long_message_is_cut() {
        for (length, expected) in [(1024, 1024), (1025, 1024), (5000, 1024)] {
            let mut book = HealthBook::default();
            book.take("d", 1, vec![told("a", Health::Unhealthy, 0, &"x".repeat(length))], at(0));
            let message = book.of("d", "pool", "a", at(0)).1.expect("told").to_owned();
            assert_eq!((message.len(), message.ends_with("...")), (expected, length > 1024));
        }
        assert_eq!(cut(&"é".repeat(600)).len(), 1023, "no character is cut in two");
    }

    /// RES-51: drivers may speak before the file could be read.
    #[test]
    fn words_stand_over_a_file_that_is_read_after_them() {
        let mut file = HealthBook::default();
        file.take("d", 7, vec![told("a", Health::Unhealthy, 100, "hot"), told("b", Health::Healthy, 100, "")], at(0));
        let mut book = HealthBook::default();
        book.take("d", 1, vec![told("a", Health::Healthy, 100, "")], at(10));
        book.restore(&file.print());
        let health = |device| book.of("d", "pool", device, at(20)).0;
        assert_eq!((health("a"), health("b")), (Health::Healthy, Health::Healthy));
        assert_eq!(book.forget("d", 1).len(), 2);
    }

    /// RES-51: the form of upstream's file.
    #[test]
    fn the_file_is_upstreams() {
        let mut book = HealthBook::default();
        book.take("d", 1, vec![told("a", Health::Healthy, 5, "fine")], at(0));
        let text = "{\"d\":{\"Devices\":{\"pool/a\":{\"PoolName\":\"pool\",\"DeviceName\":\"a\",\"Health\":\"Healthy\",\
                    \"LastUpdated\":\"1970-01-01T00:00:00Z\",\"HealthCheckTimeout\":5000000000,\"Message\":\"fine\"}}}}";
        assert_eq!(String::from_utf8(book.print()).as_deref(), Ok(text));
        assert_eq!(HealthBook::parse(text.as_bytes()).drivers, book.drivers);
        assert_eq!(HealthBook::parse(b"nonsense"), HealthBook::default());
    }
}
