//! Statistics of a simulated node: asked for while pods run, while their collector fails at each of its messages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::logic::eviction::signal::{MemoryBasis, Signal, observe};
use podwright::logic::statistics::sample::{Snapshot, Wanted};
use podwright::messages::stats_collector::StatsCollectorMsg;
use podwright::sim::scenarios::scenario;
use podwright::sim::{Crash, Options, World, describe, run};

const SEED: u64 = 11;

async fn ask(world: &World, wanted: Wanted, age_max: Duration) -> Result<Arc<Snapshot>, String> {
    let agent = Arc::clone(&world.agent().expect("nobody kills it").agent);
    let get = |reply| StatsCollectorMsg::Get { wanted, age_max, reply };
    let asked = agent.directory.stats_collector.ask(Cause::outside("test"), Duration::from_secs(30), get).await;
    asked.map_err(|error| error.to_string())?
}

/// Pods come, and somebody asks for everything now and then; the last answer.
fn story(options: Options) -> podwright::sim::Run<Result<Arc<Snapshot>, String>> {
    run(SEED, options, |world| async move {
        scenario::short(world.clone()).await;
        let mut last = Err("nobody asked".to_owned());
        for wanted in [Wanted::SUMMARY, Wanted::EVERYTHING, Wanted::RESOURCES, Wanted::SUMMARY] {
            tokio::time::sleep(Duration::from_secs(5)).await;
            last = ask(&world, wanted, Duration::ZERO).await;
        }
        if last.is_err() {
            // Its collector was just lost: it is back within a second.
            tokio::time::sleep(Duration::from_secs(5)).await;
            last = ask(&world, Wanted::SUMMARY, Duration::ZERO).await;
        }
        last
    })
}

#[test]
fn what_is_asked_twice_has_rates_and_signals() {
    let told = story(Options::default());
    assert!(told.violations.is_empty(), "{}", describe(&told.violations, &told.story));
    let snapshot = told.value.expect("told");
    assert!(snapshot.nano_cores.contains_key("/"), "two looks tell a rate");
    assert!(observe(&snapshot.sample, MemoryBasis::WorkingSet).contains_key(&Signal::MemoryAvailable));
}

#[test]
fn the_collector_may_fail_at_any_message() {
    let mut struck = BTreeSet::new();
    for index in 0..12 {
        for after in [false, true] {
            let crash = Crash { kind: "StatsCollector".to_owned(), index, after };
            let told = story(Options { crash: Some(crash.clone()), ..Options::default() });
            assert!(told.violations.is_empty(), "{crash}: {}", describe(&told.violations, &told.story));
            assert!(told.value.is_ok(), "{crash}: {:?}", told.value);
            if told.story.iter().any(|line| line.who == "fault" && line.what.contains("panics")) {
                struck.insert(index);
            }
        }
    }
    assert!(struck.len() >= 8, "the story has at least this many messages: {struck:?}");
}
