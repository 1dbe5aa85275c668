//! The cost of things that concern all pods of a node at once: a relist, an outage of the API server, and the end of all.

use std::time::Duration;

use podwright::sim::meter::Measured;
use podwright::sim::world::drivers::DISK;
use podwright::sim::{Options, SimPod, World, run};

use super::{all_run, processor_time, tell};

/// Nodes of so many pods are compared.
pub const SIZES: [usize; 2] = [100, 1000];
/// The longest half of a call to the API server.
const WAY: Duration = Duration::from_millis(100);
/// Pods whose container ends, one after the other.
const ONE_BY_ONE: usize = 100;
/// The length of an outage of the API server, and the time after it in which the agent sends all that waited.
const AWAY: Duration = Duration::from_secs(60);
const TOLD: Duration = Duration::from_secs(240);
/// How long relists are measured; there is one a second.
const RELISTS: u32 = 60;

/// The figures of a node of one size.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// A status patch of the statuses' outbox, with all that leads to it, where pods change one by one.
    pub sent: Duration,
    /// The same where the statuses of all pods wait for the API server, once it answers again.
    pub drained: Duration,
    /// A relist, for each pod.
    pub relist: Duration,
    /// An outage of the API server and its end while nothing else happens, for each pod, beside what relists concern.
    pub outage: Duration,
    /// The end of all pods, each with a volume of a driver, for each pod.
    pub end: Duration,
}

fn pod(number: usize) -> SimPod {
    SimPod::of(&format!("web-{number}"), "run").grace(2).persistent(&format!("data-{number}"))
}

fn each(time: Duration, count: usize) -> Duration {
    time / u32::try_from(count.max(1)).expect("few")
}

/// The time that the actors took that have nothing to do with relists.
fn beside_relists(measured: &Measured) -> Duration {
    let others = measured.kinds.iter().filter(|(kind, _)| !["Pleg", "PodManager", "RuntimeMonitor"].contains(kind));
    others.map(|(_, cost)| cost.took).sum()
}

/// Status patches that the API server was asked for so far.
fn patches(world: &World) -> usize {
    usize::try_from(world.api().asked().get("patch pods").copied().unwrap_or_default()).expect("few")
}

async fn measure(world: World, pods: usize) -> Crowd {
    let meter = world.meter().expect("asked for");
    world.add_csi_driver(DISK, true);
    (0..pods).for_each(|number| world.add_volume(&format!("data-{number}"), DISK));
    world.start_agent();
    world.sleep(Duration::from_secs(5)).await;
    (0..pods).for_each(|number| drop(world.create(&pod(number)).expect("the first of its name")));
    all_run(&world, pods).await;
    meter.take();
    world.sleep(Duration::from_secs(1) * RELISTS).await;
    let relist = meter.take();
    tell("relists", &relist);
    let relist = relist.all().took / RELISTS;

    world.link().take_so_long(WAY);
    let outbox = |measured: &Measured| measured.kinds.get("StatusManager").map_or(Duration::ZERO, |cost| cost.took);
    let before = patches(&world);
    for number in 0..ONE_BY_ONE {
        world.kill_sandboxes(&format!("web-{}", number % pods));
        world.sleep(Duration::from_secs(4)).await;
    }
    let sent = each(outbox(&meter.take()), patches(&world) - before);

    world.link().go_away(world.node(), AWAY);
    world.sleep(AWAY + TOLD).await;
    let outage = each(beside_relists(&meter.take()), pods);

    world.link().go_away(world.node(), AWAY);
    (0..pods).for_each(|number| world.kill_sandboxes(&format!("web-{number}")));
    world.sleep(AWAY).await;
    tell("waiting", &meter.take());
    let before = patches(&world);
    world.sleep(TOLD).await;
    let drained = meter.take();
    tell("drained", &drained);
    let drained = each(outbox(&drained), patches(&world) - before);

    (0..pods).for_each(|number| world.delete_pod(&format!("web-{number}"), None));
    let mut seconds = 0;
    while !world.api().all("pods").is_empty() {
        world.sleep(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds < 1200, "{} pods stay", world.api().all("pods").len());
    }
    let end = meter.take();
    tell("end", &end);
    let end = each(end.all().took, pods);
    Crowd { sent, drained, relist: each(relist, pods), outage, end }
}

/// Measures a node of so many pods.
pub fn of(pods: usize) -> Crowd {
    let options = Options {
        cluster: true,
        plugins: true,
        turn_clock: Some(processor_time),
        settings: |settings| {
            settings.pods.sync_period = Duration::from_secs(3600);
            settings.runtime.evented = false;
        },
        ..Options::default()
    };
    run(1, options, move |world| measure(world, pods)).value
}

/// Prints the figures.
pub fn print(pods: usize, crowd: &Crowd) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{pods:>5} pods: a patch {:.0} µs, one of all at once {:.0} µs; for each pod a relist {:.2} µs, an outage {:.0} µs, its end \
         among all {:.0} µs",
        micros(crowd.sent),
        micros(crowd.drained),
        micros(crowd.relist),
        micros(crowd.outage),
        micros(crowd.end),
    );
}
