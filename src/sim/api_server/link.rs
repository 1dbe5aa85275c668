//! How the simulated node's agent reaches the API server: the agent's real client, over a way on which things go wrong.
//!
//! Below the client there is no connection but a function, so each call is one future of the operation that made it: it
//! takes its time, meets its fate, and stands still when the agent's process is dead.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::Value;

use super::answers::Answer;
use super::refusal::Refused;
use super::resources::Target;
use super::watches::Cut;
use super::{ApiServer, Mood, Request, Who};
use crate::actors::kit::trace::lock;
use crate::platform::cluster::kube_api;
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;
use crate::sim::node::NODE_NAME;
use crate::sim::node::Node;
use crate::sim::node::outlet::Outlet;

/// The longest time in which a server that has just started fills its caches.
const FILLING_MAX: Duration = Duration::from_secs(12);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, BoxError>> + Send>>;
/// An answer as it travels.
pub type Response = http::Response<StreamBody<Frames>>;

/// The fate of one call.
#[derive(Clone, Debug)]
enum Fate {
    Well,
    /// No effect.
    Refused(Refused),
    /// An effect, and no answer: the connection breaks.
    AnswerLost,
    /// No answer before the caller's time is over; an effect or none.
    Hangs {
        effect: bool,
    },
}

/// The way to the server: what goes wrong there, by whose chance. One for all incarnations of the agent.
pub struct Link {
    /// The server.
    pub server: Arc<ApiServer>,
    random: Random,
    /// The longest half of a call where nothing goes wrong.
    longest: Mutex<Duration>,
    /// Nobody answers until then, counted from the run's beginning.
    away_until: Mutex<Duration>,
    /// Changes of paths that end so are refused.
    refused: Mutex<Option<String>>,
    /// Counts how often the server went away.
    epoch: AtomicU64,
    /// Until then the server's own caches fill: its admission finds no pod that is to be deleted.
    filling_until: Mutex<Duration>,
}

impl Link {
    /// To this server. A call takes up to twice `longest` where nothing goes wrong.
    pub fn new(seed: u64, server: Arc<ApiServer>, longest: Duration) -> Arc<Self> {
        Arc::new(Self {
            server,
            random: Random::named(seed, "api server"),
            longest: Mutex::new(longest),
            away_until: Mutex::default(),
            refused: Mutex::default(),
            epoch: AtomicU64::new(0),
            filling_until: Mutex::default(),
        })
    }

    /// A call takes up to twice this time from now on.
    pub fn take_so_long(&self, longest: Duration) {
        *lock(&self.longest) = longest;
    }

    /// The server is away for so long: connections break, and none is made.
    pub fn go_away(&self, node: &Node, time: Duration) {
        node.story.tell("fault", format!("the API server is away for {:.1}s", time.as_secs_f64()));
        *lock(&self.away_until) = node.time.elapsed() + time;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.server.end_watches();
        if node.faults.has(Fault::ApiFalseGone) {
            self.fill_caches(node, time + self.random.between(Duration::ZERO, FILLING_MAX));
        }
    }

    /// For so long the server's caches fill.
    pub fn fill_caches(&self, node: &Node, time: Duration) {
        *lock(&self.filling_until) = node.time.elapsed() + time;
    }

    /// Whether the server denies the pod that is to be deleted, as long as its caches fill.
    fn denies(&self, node: &Node, request: &Request) -> Option<Refused> {
        let target = Target::parse(&request.path).filter(|_| request.title() == "delete pods")?;
        let is_filling = node.time.elapsed() < *lock(&self.filling_until);
        is_filling.then(|| Refused::not_found(target.resource, target.name.as_deref().unwrap_or_default()))
    }

    fn is_away(&self, node: &Node) -> bool {
        node.time.elapsed() < *lock(&self.away_until)
    }

    /// Changes of paths with this end are refused from now on; `None`: none is.
    pub fn refuse(&self, end: Option<String>) {
        *lock(&self.refused) = end;
    }

    /// Nothing goes wrong from now on.
    pub fn recover(&self) {
        self.refuse(None);
        *lock(&self.away_until) = Duration::ZERO;
        *lock(&self.filling_until) = Duration::ZERO;
        self.server.set_mood(Mood::default());
    }

    /// The client of one incarnation of the agent.
    pub fn client(self: &Arc<Self>, outlet: &Arc<Outlet>) -> kube_api::ApiServer {
        let lane = || {
            let (link, outlet) = (Arc::clone(self), Arc::clone(outlet));
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let (link, outlet) = (Arc::clone(&link), Arc::clone(&outlet));
                async move { link.call(&outlet, request).await }
            });
            kube::Client::new(service, "default")
        };
        kube_api::ApiServer::new(lane(), lane(), lane()).named("https://api.sim:6443")
    }

    /// Faults that come at random times, for as long as the run goes on.
    pub async fn trouble(self: Arc<Self>, node: Arc<Node>) {
        let random = &self.random;
        loop {
            tokio::time::sleep(random.between(Duration::from_secs(3), Duration::from_secs(25))).await;
            let strikes = |fault, share| node.faults.has(fault) && random.chance(share);
            if strikes(Fault::ApiAway, 0.3) {
                let long = random.chance(0.2);
                let longest = Duration::from_secs(if long { 240 } else { 15 });
                self.go_away(&node, random.between(Duration::from_millis(200), longest));
            }
            if strikes(Fault::ApiFalseGone, 0.3) {
                node.story.tell("fault", "the API server's caches fill");
                self.fill_caches(&node, random.between(Duration::from_secs(1), FILLING_MAX));
            }
            if strikes(Fault::ApiWatches, 0.3) {
                node.story.tell("fault", "the API server forgets old versions");
                self.server.compact();
            }
            let mut mood = self.server.mood();
            if strikes(Fault::ApiStale, 0.5) {
                (mood.lag, mood.plain_lists) = (random.below(30), random.chance(0.7));
                node.story.tell("fault", format!("the API server's lists are {} versions old", mood.lag));
            }
            if strikes(Fault::ApiClocks, 0.3) {
                let seconds = i64::try_from(random.below(1200)).unwrap_or_default() - 600;
                node.story.tell("fault", format!("the API server's clock is {seconds}s wrong"));
                mood.skew_seconds = seconds;
            }
            self.server.set_mood(mood);
        }
    }

    fn latency(&self, node: &Node) -> Duration {
        let slow = node.faults.has(Fault::ApiSlow) && self.random.chance(0.15);
        let longest = if slow { Duration::from_secs(8) } else { *lock(&self.longest) };
        self.random.between(Duration::from_millis(1), longest)
    }

    fn fate(&self, node: &Node, request: &Request) -> Fate {
        let strikes = |fault, share| node.faults.has(fault) && self.random.chance(share);
        let changes = !matches!(request.verb(), "get" | "list" | "watch");
        if let Some(refused) = self.denies(node, request) {
            return Fate::Refused(refused);
        }
        if changes && lock(&self.refused).as_ref().is_some_and(|end| request.path.ends_with(end.as_str())) {
            return Fate::Refused(Refused::new(422, "Invalid", "a policy refuses it"));
        }
        if strikes(Fault::ApiBusy, 0.08) {
            let wait = Duration::from_secs(1 + self.random.below(4));
            let text = "too many requests, please try again later";
            return Fate::Refused(Refused::new(429, "TooManyRequests", text).retry_after(wait));
        }
        if strikes(Fault::ApiErrors, 0.06) {
            return Fate::Refused(if self.random.chance(0.5) {
                Refused::new(500, "InternalError", "Internal error occurred: etcdserver: request timed out")
            } else {
                Refused::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
            });
        }
        if changes && request.verb() != "create" && strikes(Fault::ApiConflicts, 0.08) {
            let text = format!("Operation cannot be fulfilled: {}", super::verbs::PATCH_CONFLICT);
            return Fate::Refused(Refused::new(409, "Conflict", text));
        }
        if strikes(Fault::ApiLostAnswers, 0.06) {
            return Fate::AnswerLost;
        }
        if strikes(Fault::ApiSlow, 0.01) {
            return Fate::Hangs { effect: self.random.chance(0.5) };
        }
        Fate::Well
    }

    /// How a watch that begins now is to end before its time.
    fn cut(&self, node: &Node) -> Option<(Duration, Cut)> {
        if !node.faults.has(Fault::ApiWatches) || self.random.chance(0.4) {
            return None;
        }
        let kinds = [Cut::Ends, Cut::Breaks, Cut::Silent, Cut::Expired];
        let kind = kinds[usize::try_from(self.random.below(4)).unwrap_or_default()];
        Some((self.random.between(Duration::ZERO, Duration::from_secs(40)), kind))
    }

    async fn call(self: Arc<Self>, outlet: &Outlet, request: http::Request<Body>) -> Result<Response, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let content_type = head.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let uri = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let request = Request::new(head.method.as_str(), uri, content_type.unwrap_or_default(), body);
        let node = Arc::clone(outlet.node());
        let number = outlet.begin_call().await;
        let fate = self.fate(&node, &request);
        let late = node.faults.has(Fault::LateEffects) && self.random.chance(0.5);
        let late = late.then(|| self.random.between(Duration::from_millis(1), Duration::from_secs(3)));
        let mut effect = Effect { link: &self, node: &node, number, late, request: Some(request) };
        if self.is_away(&node) {
            effect.request = None;
            return Err("dial tcp 10.0.0.100:6443: connect: connection refused".into());
        }
        let epoch = self.epoch.load(Ordering::Relaxed);
        outlet.pass(self.latency(&node)).await;
        self.check(&node, epoch)?;
        let answer = match &fate {
            Fate::Well | Fate::AnswerLost | Fate::Hangs { effect: true } => Some(effect.take_place()),
            Fate::Refused(_) | Fate::Hangs { effect: false } => {
                let title = effect.request.take().map(|request| request.title()).unwrap_or_default();
                node.story.tell("fault", format!("API: {title}: {fate}"));
                None
            }
        };
        outlet.end_call(number).await;
        match (fate, answer) {
            (Fate::Refused(refused), _) => Ok(self.respond(&node, Answer::from(Err(refused)))),
            (Fate::Hangs { .. }, _) => std::future::pending().await,
            (Fate::AnswerLost, _) => {
                outlet.pass(self.latency(&node)).await;
                node.story.tell("fault", "API: an answer is lost");
                Err("unexpected EOF".into())
            }
            (Fate::Well, answer) => {
                outlet.pass(self.latency(&node)).await;
                self.check(&node, epoch)?;
                Ok(self.respond(&node, answer.expect("it took place")))
            }
        }
    }

    fn check(&self, node: &Node, epoch: u64) -> Result<(), BoxError> {
        if self.is_away(node) || self.epoch.load(Ordering::Relaxed) != epoch {
            return Err("read tcp 10.0.0.100:6443: read: connection reset by peer".into());
        }
        Ok(())
    }

    fn respond(&self, node: &Node, answer: Answer) -> Response {
        // Each event of a watch takes its own time; drawn from a stream of the watch's own.
        let random = Random::new(self.random.number());
        let slow = node.faults.has(Fault::ApiSlow);
        let wait = move || {
            let longest = if slow && random.chance(0.1) { 2_000 } else { 5 };
            random.between(Duration::from_millis(1), Duration::from_millis(longest))
        };
        respond(answer, wait)
    }
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Well => f.write_str("well"),
            Self::Refused(refused) => write!(f, "{} {}", refused.code, refused.reason),
            Self::AnswerLost => f.write_str("the answer is lost"),
            Self::Hangs { .. } => f.write_str("hangs"),
        }
    }
}

/// An answer as it travels; each event of a watch after its wait.
pub(super) fn respond(answer: Answer, wait: impl Fn() -> Duration + Send + 'static) -> Response {
    let (code, retry_after, frames): (u16, Option<u64>, Frames) = match answer {
        Answer::Whole { code, retry_after, body } => {
            let frame = Ok(Frame::data(Bytes::from(body.to_string())));
            (code, retry_after, Box::pin(futures_util::stream::iter([frame])))
        }
        Answer::Stream(watching) => {
            let frames = futures_util::stream::unfold((watching, wait), |(mut watching, wait)| async move {
                let next = watching.next().await?;
                tokio::time::sleep(wait()).await;
                let frame = next.map(Frame::data).map_err(BoxError::from);
                Some((frame, (watching, wait)))
            });
            (200, None, Box::pin(frames))
        }
    };
    let mut response = http::Response::builder().status(code).header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    response.body(StreamBody::new(frames)).expect("an answer")
}

/// A call's effect. Where the caller leaves before it took place, it may take place all the same.
struct Effect<'a> {
    link: &'a Arc<Link>,
    node: &'a Arc<Node>,
    number: u64,
    late: Option<Duration>,
    request: Option<Request>,
}

impl Link {
    fn take_effect(&self, node: &Node, request: &Request) -> Answer {
        let mut mood = self.server.mood();
        mood.mutates = node.faults.has(Fault::ApiWebhooks);
        if request.verb() == "watch" {
            mood.cut = self.cut(node);
        }
        self.server.set_mood(mood);
        let who = Who::Node(NODE_NAME.to_owned());
        let answer = self.server.handle(&who, request);
        if let Answer::Whole { code, .. } = &answer
            && (*code >= 300 || !matches!(request.verb(), "get" | "list" | "create"))
            && !request.path.contains("/leases/")
        {
            let place = request.path.rsplit_once("/v1/").map_or(&*request.path, |(_, place)| place);
            node.story.tell("api", format!("{} {place}: {code}", request.verb()));
        }
        answer
    }
}

impl Effect<'_> {
    fn take_place(&mut self) -> Answer {
        let request = self.request.take().expect("an effect takes place once");
        self.link.take_effect(self.node, &request)
    }
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        if let Some(delay) = self.late.filter(|_| request.method != "GET") {
            let link = Arc::clone(self.link);
            self.node.left_behind(self.number, delay, move |node| {
                node.story.tell("fault", format!("API: {} takes effect although its caller left", request.title()));
                node.late_call.store(true, Ordering::Relaxed);
                drop(link.take_effect(node, &request)); // Nobody is left to hear it.
                node.late_call.store(false, Ordering::Relaxed);
            });
        }
    }
}

/// How often nodes asked since an earlier count.
pub fn asked_since(server: &ApiServer, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let less = |(title, count): (String, u64)| {
        let known = before.get(&title).copied().unwrap_or_default();
        (count > known).then(|| (title, count - known))
    };
    server.asked().into_iter().filter_map(less).collect()
}
