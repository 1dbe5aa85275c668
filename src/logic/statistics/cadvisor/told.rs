//! The page where the runtime tells of pods (gate `PodAndContainerStatsFromCRI`): its own metrics, then the machine's.
//!
//! As upstream, a page has no sample of a metric that the runtime did not describe, or whose labels do not fit the
//! description. Of samples with the same labels it has the first. It is written family by family.

use std::collections::{BTreeMap, BTreeSet};

use super::machine;
use crate::logic::model::time::Moment;
use crate::logic::statistics::exposition::{Exposition, Kind, labels};
use crate::logic::statistics::sample::Snapshot;

/// The runtime's descriptions of its metrics, by name.
pub type Descriptions = BTreeMap<String, Description>;

/// The runtime's description of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Help text.
    pub help: String,
    /// Names of labels, in the order of a sample's values.
    pub labels: Vec<String>,
}

/// A sample that the runtime tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldSample {
    /// The metric's name.
    pub name: String,
    /// The kind of its value.
    pub kind: Kind,
    /// Values of labels.
    pub labels: Vec<String>,
    /// Value.
    pub value: u64,
    /// When it was measured; the epoch for "now".
    pub at: Moment,
}

/// The families of the page: the runtime's in the order of their names, then those of the machine.
pub fn told_page(
    described: Descriptions,
    told: Vec<ToldSample>,
    snapshot: &Snapshot,
) -> Box<dyn Iterator<Item = String> + Send> {
    let mut families: BTreeMap<String, Vec<ToldSample>> = BTreeMap::new();
    for sample in told {
        families.entry(sample.name.clone()).or_default().push(sample);
    }
    let machine = machine::machine(snapshot);
    let written = families.into_iter().filter_map(move |(name, samples)| {
        let description = described.get(&name).filter(|description| is_sound(&name, description))?;
        Some(family(&name, description, &samples))
    });
    Box::new(written.filter(|text| !text.is_empty()).chain([machine]))
}

fn family(name: &str, description: &Description, samples: &[ToldSample]) -> String {
    let help = description.help.replace('\\', "\\\\").replace('\n', "\\n");
    let mut out = Exposition::default();
    let Some(kind) = samples.first().map(|first| first.kind) else { return String::new() };
    out.family(name, &help, kind);
    let mut told = BTreeSet::new();
    for sample in samples {
        if sample.kind != kind || sample.labels.len() != description.labels.len() {
            continue;
        }
        let names = description.labels.iter().map(String::as_str);
        let mut pairs: Vec<_> = names.zip(sample.labels.iter().map(String::as_str)).collect();
        pairs.sort_unstable();
        let labels = labels(&pairs);
        if told.contains(&labels) {
            continue;
        }
        out.sample(&labels, &[], sample.value, Some(sample.at).filter(|at| *at != Moment::EPOCH));
        told.insert(labels);
    }
    out.into_text()
}

/// Whether its names can stand on a page: a name that cannot would spoil the whole page for who reads it.
fn is_sound(name: &str, description: &Description) -> bool {
    let is_word = |text: &str, colons: bool| {
        let is_letter = |one: char| one.is_ascii_alphabetic() || one == '_' || (colons && one == ':');
        text.starts_with(is_letter) && text.chars().all(|one| is_letter(one) || one.is_ascii_digit())
    };
    let labels: BTreeSet<&String> = description.labels.iter().collect();
    let distinct = labels.len() == description.labels.len();
    is_word(name, true) && distinct && labels.iter().all(|label| is_word(label, false) && !label.starts_with("__"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::statistics::build::tests::snapshot;

    fn described(name: &str, help: &str, labels: &[&str]) -> (String, Description) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        (name.to_owned(), Description { help: help.to_owned(), labels })
    }

    fn sample(name: &str, labels: &[&str], value: u64) -> ToldSample {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        ToldSample { name: name.to_owned(), kind: Kind::Gauge, labels, value, at: Moment::EPOCH }
    }

    fn page(described: impl IntoIterator<Item = (String, Description)>, told: Vec<ToldSample>) -> Vec<String> {
        told_page(described.into_iter().collect(), told, &snapshot()).collect()
    }

    /// OBS-20: under the gate the page has the runtime's series and the machine's, and nothing of control groups.
    #[test]
    fn the_runtimes_series_stand_before_the_machines() {
        let descriptions = [described("b_total", "Two\nlines.", &["pod", "id"]), described("a_bytes", "Bytes.", &[])];
        let at = Moment(1_700_000_000_123_456_789);
        let second = ToldSample { kind: Kind::Counter, at, ..sample("b_total", &["p\"", "1"], u64::MAX) };
        let page = page(descriptions, vec![second, sample("a_bytes", &[], 5)]);
        assert_eq!(page[0], "# HELP a_bytes Bytes.\n# TYPE a_bytes gauge\na_bytes 5\n");
        let lines = "# HELP b_total Two\\nlines.\n# TYPE b_total counter\n\
                     b_total{id=\"1\",pod=\"p\\\"\"} 18446744073709551615 1700000000123\n";
        assert_eq!(page[1], lines);
        assert!(page[2].contains("\nmachine_cpu_cores{") && page.len() == 3);
        let all = page.concat();
        assert!(!all.contains("container_") && !all.contains("cadvisor_version_info"), "{all}");
    }

    #[test]
    fn samples_that_do_not_fit_their_description_are_left_out() {
        let descriptions = [
            described("good", "", &["id"]),
            described("bad name", "", &[]),
            described("bad_label", "", &["a-b"]),
            described("reserved", "", &["__name__"]),
            described("twice", "", &["a", "a"]),
        ];
        let told = vec![
            sample("good", &["1"], 1),
            sample("good", &["1"], 2),
            sample("good", &[], 3),
            ToldSample { kind: Kind::Counter, ..sample("good", &["2"], 4) },
            sample("unknown", &[], 5),
            sample("bad name", &[], 6),
            sample("bad_label", &["x"], 7),
            sample("reserved", &["x"], 8),
            sample("twice", &["x", "y"], 9),
        ];
        let page = page(descriptions, told);
        assert_eq!(page.len(), 2, "{page:?}");
        assert_eq!(page[0], "# HELP good \n# TYPE good gauge\ngood{id=\"1\"} 1\n");
    }
}
