//! Properties that hold after any news, in any order.

use proptest::prelude::*;

use super::*;

/// Static pods, then pods of the API server: each name has two of either.
const UIDS: [&str; 8] = ["s0", "s1", "s2", "s3", "a0", "a1", "a2", "a3"];
const STATICS: usize = 4;

/// How the API server has a pod.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Gone,
    Runs,
    Deleted(i64),
    Failed,
}

/// One piece of news.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The folder holds the manifests of these bits.
    Folder(u8),
    /// The API server tells of one pod.
    Told(usize, Shown),
    /// A relist shows the pods of these bits.
    Relist(u8),
    /// A worker's pod is over.
    Over(usize),
    /// A worker's pod is gone.
    Finished(usize),
    /// A worker failed, and was started again.
    Failed(usize),
    /// A pod was released.
    Released(usize),
    /// More may start.
    Refill,
}

fn events() -> impl Strategy<Value = Event> {
    let any_pod = || 0..UIDS.len();
    let shown = prop_oneof![
        2 => Just(Shown::Gone),
        4 => Just(Shown::Runs),
        2 => (0..60_i64).prop_map(Shown::Deleted),
        1 => Just(Shown::Failed),
    ];
    prop_oneof![
        3 => (0..1_u8 << STATICS).prop_map(Event::Folder),
        6 => (STATICS..UIDS.len(), shown).prop_map(|(which, shown)| Event::Told(which, shown)),
        2 => any::<u8>().prop_map(Event::Relist),
        3 => any_pod().prop_map(Event::Over),
        4 => any_pod().prop_map(Event::Finished),
        1 => any_pod().prop_map(Event::Failed),
        2 => any_pod().prop_map(Event::Released),
        1 => Just(Event::Refill),
    ]
}

fn name_of(which: usize) -> String {
    format!("n{}", which % 2)
}

fn bits(bits: u8) -> impl Iterator<Item = usize> {
    (0..UIDS.len()).filter(move |which| bits & (1 << which) != 0)
}

/// The node around the roster: it carries out orders, and checks each.
struct Node {
    roster: PodRoster,
    runtime: BTreeMap<PodUid, FullName>,
    /// Workers; whether each is to end its pod.
    workers: BTreeMap<PodUid, bool>,
}

impl Node {
    fn new() -> Self {
        let mut roster = PodRoster::new([API_SOURCE, "file"]);
        roster.set(API_SOURCE, BTreeMap::new());
        roster.set("file", BTreeMap::new());
        Self { roster, runtime: BTreeMap::new(), workers: BTreeMap::new() }
    }

    /// Takes the news, and carries out the orders that `PodManager` asks for then.
    fn take(&mut self, event: Event) -> Result<(), TestCaseError> {
        let all = match event {
            Event::Folder(wanted) => {
                let pods = bits(wanted).map(|which| (PodUid::from(UIDS[which]), pod(&name_of(which), "a")));
                self.roster.set("file", pods.collect());
                None
            }
            Event::Relist(shown) => {
                let name = |which: usize| FullName::new(&name_of(which), "default");
                self.runtime = bits(shown).map(|which| (PodUid::from(UIDS[which]), name(which))).collect();
                None
            }
            Event::Refill => {
                self.roster.refill();
                let orders = self.roster.orders_held_up(Some(&self.runtime));
                return self.carry_out(orders);
            }
            Event::Told(which, _) | Event::Over(which) | Event::Finished(which) => Some(UIDS[which]),
            Event::Failed(which) | Event::Released(which) => Some(UIDS[which]),
        };
        let Some(uid) = all.map(PodUid::from) else {
            let orders = self.roster.orders(Some(&self.runtime));
            return self.carry_out(orders);
        };
        self.take_one(event, &uid);
        let orders = self.roster.orders_for(&uid, Some(&self.runtime));
        self.carry_out(orders)
    }

    fn take_one(&mut self, event: Event, uid: &PodUid) {
        match event {
            Event::Told(which, shown) => self.roster.set_pod(API_SOURCE, uid, shown_as(which, shown)),
            Event::Over(_) => drop(self.roster.over(uid)),
            Event::Finished(_) if self.workers.remove(uid).is_some() => {
                self.roster.finished(uid);
                self.runtime.remove(uid);
            }
            Event::Failed(_) => self.roster.forget_told(uid),
            Event::Released(_) => drop(self.roster.released(uid)),
            _ => {}
        }
    }

    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), TestCaseError> {
        let mut ended = BTreeSet::new();
        for order in orders {
            match order {
                Order::Start { uid, full_name } => {
                    let wanted = self.roster.wanted(&uid).cloned();
                    if wanted.is_some_and(|pod| is_static(&pod)) {
                        let others = self.roster.workers.iter().filter(|(other, worker)| {
                            **other != uid && self.workers.contains_key(*other) && !worker.over
                        });
                        let taken = others.filter(|(_, worker)| worker.full_name == full_name).count();
                        prop_assert_eq!(taken, 0, "{} starts while another has its name", uid);
                    }
                    prop_assert!(self.workers.insert(uid.clone(), false).is_none(), "{} starts twice", uid);
                }
                Order::TellSpec { uid, .. } | Order::TellEnd { uid, .. } => {
                    prop_assert!(self.workers.contains_key(&uid), "{} has no worker to tell", uid);
                    prop_assert!(!ended.contains(&uid), "{} hears of its pod after its end", uid);
                }
                Order::Terminate { uid, .. } => {
                    let worker = self.workers.get_mut(&uid).map(|ends| *ends = true);
                    prop_assert!(worker.is_some(), "{} has no worker to end", uid);
                    ended.insert(uid);
                }
                Order::Release(uid) => prop_assert!(!self.workers.contains_key(&uid), "{} has a worker", uid),
            }
        }
        Ok(())
    }

    /// The state that news have to lead to, whatever they are.
    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.roster.clone().orders(Some(&self.runtime)), vec![], "a pass over all pods finds more");
        prop_assert!(self.roster.workers.keys().eq(self.workers.keys()), "workers");
        for (uid, ends) in &self.workers {
            prop_assert!(*ends || self.roster.wanted(uid).is_some(), "{} goes on, and nobody wants it", uid);
        }
        for (uid, pod) in self.roster.all_wanted().filter(|(uid, _)| !self.workers.contains_key(*uid)) {
            let is_done = self.roster.ended.contains(uid) || self.roster.releasing.contains(uid);
            let waits = is_static(pod) && self.roster.names.contains_key(&full_name(pod));
            prop_assert!(is_done || waits || self.roster.is_unfinished(), "{} is wanted, and nobody starts it", uid);
        }
        Ok(())
    }
}

fn shown_as(which: usize, shown: Shown) -> Option<Arc<Pod>> {
    match shown {
        Shown::Gone => None,
        Shown::Runs => Some(api_pod(&name_of(which), None)),
        Shown::Deleted(seconds) => Some(api_pod(&name_of(which), Some(seconds))),
        Shown::Failed => {
            let mut pod = Pod::clone(&api_pod(&name_of(which), None));
            pod.status.get_or_insert_default().phase = Some("Failed".to_owned());
            Some(Arc::new(pod))
        }
    }
}

proptest! {
    /// POD-04, POD-07, POD-09.
    #[test]
    fn any_news_lead_to_one_worker_for_each_pod_that_may_run(news in prop::collection::vec(events(), 1..40)) {
        let mut node = Node::new();
        for event in news {
            node.take(event)?;
            node.check()?;
        }
    }

    /// POD-08.
    #[test]
    fn deletions_only_ever_leave_less_time(graces in prop::collection::vec(0..100_i64, 1..20)) {
        let mut roster = PodRoster::new([API_SOURCE]);
        roster.set(API_SOURCE, set(&[("u1", &api_pod("web", None))]));
        roster.orders(Some(NOTHING));
        let mut least = None;
        for seconds in graces {
            roster.set_pod(API_SOURCE, &"u1".into(), Some(api_pod("web", Some(seconds))));
            let told = self::graces(&roster.orders_for(&"u1".into(), Some(NOTHING)));
            let is_less = least.is_none_or(|least| seconds < least);
            let expected = if is_less { vec![u64::try_from(seconds).ok()] } else { vec![] };
            prop_assert_eq!(told, expected, "{} s after {:?}", seconds, least);
            least = Some(least.map_or(seconds, |least: i64| least.min(seconds)));
        }
    }
}
