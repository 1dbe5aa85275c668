//! The strict mode: periodic looks at what news have missed come once in ten hours, and the node has little time. An agent that
//! drops a word is late here, and not merely slow.

use std::time::Duration;

use podwright::messages::root::Child;
use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::scenarios::{cluster_scenario, plugin_scenario, scenario};
use podwright::sim::{Options, describe, run};
use strum::IntoEnumIterator;

use crate::common::{seeds, side_by_side};

/// Where words get lost outside of the agent, by the runtime or the kernel, only a periodic look can know.
const FAULTS: &str = "all,-events,-watches";
const PODS: usize = 8;
const TIME: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum Place {
    Alone,
    Cluster,
    Plugins,
}

fn strict(seed: u64, place: Place, faults: &str) {
    strict_with(seed, place, faults, None);
}

/// The mailboxes of the kind named by `narrow` have room for one message.
fn strict_with(seed: u64, place: Place, faults: &str, narrow: Option<&str>) {
    let faults = parse_list(faults).expect("a list of faults");
    let flag = match place {
        Place::Alone => "",
        Place::Cluster => " --cluster",
        Place::Plugins => " --plugins",
    };
    let list = write_list(&faults);
    let mut command =
        format!("simulate --seed {seed} --pods {PODS} --duration {} --faults {list}{flag} --strict", TIME.as_secs());
    if let Some(kind) = narrow {
        command.push_str(&format!(" --mailbox {kind}:1"));
    }
    let mailbox = narrow.map(|kind| (kind.to_owned(), 1));
    let (cluster, plugins) = (!matches!(place, Place::Alone), matches!(place, Place::Plugins));
    let options = Options { faults, cluster, plugins, strict: true, mailbox, command, ..Options::default() };
    let run = run(seed, options, move |world| async move {
        match place {
            Place::Alone => scenario::standard(world, PODS, TIME).await,
            Place::Cluster => cluster_scenario::standard(world, PODS, TIME).await,
            Place::Plugins => plugin_scenario::standard(world, PODS, TIME).await,
        }
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
}

#[test]
fn a_node_is_right_at_once_without_periodic_looks() {
    for place in [Place::Alone, Place::Cluster, Place::Plugins] {
        side_by_side(&seeds(8, 4), |seed| strict(*seed, place, "none"));
    }
}

#[test]
fn a_node_is_right_soon_after_its_last_fault_without_periodic_looks() {
    for place in [Place::Alone, Place::Cluster, Place::Plugins] {
        side_by_side(&seeds(10, 0), |seed| strict(*seed, place, FAULTS));
    }
}

/// Networks fail, the runtime forgets all pods, and webhooks change what the agent writes.
#[test]
fn a_node_is_right_soon_after_its_surroundings_changed_under_it() {
    for place in [Place::Cluster, Place::Plugins] {
        side_by_side(&seeds(3, 0), |seed| strict(*seed, place, "networks,runtime-losses,api-webhooks"));
    }
}

/// A word that somebody had no room for is said again, or nobody had to hear it.
#[test]
fn a_node_is_right_at_once_while_mailboxes_are_full() {
    let kinds: Vec<&str> = Child::iter().map(<&str>::from).chain(["PodWorker"]).collect();
    for place in [Place::Cluster, Place::Plugins] {
        side_by_side(&kinds, |kind| strict_with(seeds(0, 1)[0], place, "none", Some(kind)));
    }
}
