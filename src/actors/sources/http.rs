//! `HttpSource`: static pods from a URL.
//!
//! Parent: Root. Restarted: after a failure; the URL tells it all again. Keeps the last body, so that an unchanged one
//! costs nothing; an error leaves the pods as they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::mark_seen;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::manifest::gates::ManifestGates;
use crate::logic::manifest::references::References;
use crate::logic::manifest::{Checked, Source, check_static_list_with, claimed_name};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::log_level::LogLevel;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::{HttpSourceMsg, SourceKind};
use crate::messages::status::status_manager::{RefusedManifest, StatusManagerMsg};
use crate::platform::pods::manifests::ManifestUrl;

/// The actor's arguments.
pub struct Args {
    /// The node's name, which is part of its static pods' names.
    pub node_name: String,
    /// The static pod URL, where one is set.
    pub url: Option<Arc<dyn ManifestUrl>>,
    /// `staticPodURL`, as pods' UIDs take it in.
    pub url_text: String,
    /// `httpCheckFrequency`.
    pub check_period: Duration,
    /// Gates by which pods are refused.
    pub gates: ManifestGates,
    /// Whether pods may name ConfigMaps and Secrets.
    pub references: References,
    /// Hears of all pods.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of manifests that give none.
    pub status_manager: Address<StatusManagerMsg>,
    /// Hears pods' Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct HttpSource {
    args: Args,
    body: Option<Arc<[u8]>>,
    told: Option<BTreeMap<PodUid, Arc<Pod>>>,
    /// `None` until it was sent: another may have been, by who was here before.
    refused: Option<Option<RefusedManifest>>,
    /// In a row.
    failures: u32,
}

impl Actor for HttpSource {
    const KIND: &'static str = "HttpSource";
    type Msg = HttpSourceMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<HttpSourceMsg>) -> Self {
        let source = Self { args, body: None, told: None, refused: None, failures: 0 };
        source.fetch(context);
        source
    }

    fn receive(&mut self, message: HttpSourceMsg, context: &mut Context<HttpSourceMsg>) {
        match message {
            HttpSourceMsg::FetchDue => self.fetch(context),
            HttpSourceMsg::FetchEnded(outcome) => {
                let taken = outcome.into_result().and_then(|fetched| self.take(&fetched.body, context));
                self.log(taken);
                context.after(self.args.check_period, HttpSourceMsg::FetchDue);
            }
            HttpSourceMsg::Repeat => {
                if self.told.is_some() {
                    self.tell(context);
                }
                self.tell_refused(context);
            }
        }
    }
}

impl HttpSource {
    fn fetch(&self, context: &mut Context<HttpSourceMsg>) {
        let Some(url) = self.args.url.clone() else { return };
        let work = async move { url.fetch().await };
        context.start("fetch manifests", "static pod URL", work, |outcome| HttpSourceMsg::FetchEnded(outcome.into()));
    }

    /// A URL that fails is asked every few seconds: the first failures say all that there is to say.
    fn log(&mut self, taken: Result<(), String>) {
        let url = &self.args.url_text;
        let Err(error) = taken else {
            if std::mem::take(&mut self.failures) > 0 {
                tracing::info!(url, "static pods are read again");
            }
            return;
        };
        match LogLevel::after(self.failures) {
            LogLevel::Normal => tracing::error!(url, error, "static pods cannot be read, they stay as they are"),
            LogLevel::NormalForLast => {
                tracing::error!(
                    url,
                    error,
                    "static pods cannot be read, they stay as they are; logged no more at this level"
                );
            }
            LogLevel::Debug => tracing::debug!(url, error, "static pods cannot be read"),
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn take(&mut self, body: &Arc<[u8]>, context: &Context<HttpSourceMsg>) -> Result<(), String> {
        if self.body.as_ref() == Some(body) {
            return Ok(());
        }
        let url = self.args.url_text.clone();
        if body.is_empty() {
            tracing::error!(url, "zero-length data received from the static pod URL, all its pods go");
            self.told = Some(BTreeMap::new());
        } else {
            let source = Source::Http { url: url.clone() };
            let gates = self.args.gates;
            let within =
                |all: Vec<Checked>| all.into_iter().map(|checked| checked.within(gates)).collect::<Result<Vec<_>, _>>();
            match check_static_list_with(body, &source, &self.args.node_name, self.args.references).and_then(within) {
                Ok(checked) => {
                    for warning in checked.iter().flat_map(|checked| &checked.warnings) {
                        tracing::warn!(url, warning, "static pod");
                    }
                    self.told = Some(self.unique(checked.into_iter().map(|checked| checked.pod), context));
                }
                Err(error) => {
                    let why = error.to_string();
                    let pod = claimed_name(body, &source, &self.args.node_name);
                    self.refuse(Some(RefusedManifest { pod, place: url, why: why.clone() }), context);
                    return Err(why);
                }
            }
        }
        self.body = Some(Arc::clone(body));
        self.refuse(None, context);
        self.tell(context);
        Ok(())
    }

    /// Of two pods of one name in one answer the second is dropped (POD-04).
    fn unique(&self, pods: impl Iterator<Item = Pod>, context: &Context<HttpSourceMsg>) -> BTreeMap<PodUid, Arc<Pod>> {
        let mut names = std::collections::BTreeSet::new();
        let mut unique = BTreeMap::new();
        for mut pod in pods {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            let (name, namespace) = (text(&pod.metadata.name), text(&pod.metadata.namespace));
            let uid = PodUid::from(text(&pod.metadata.uid));
            let before = self.told.as_ref().and_then(|told| told.get(&uid));
            mark_seen(&mut pod, before.map(|pod| &**pod), context.now());
            if names.insert((namespace.clone(), name.clone())) {
                unique.insert(uid, Arc::new(pod));
                continue;
            }
            let subject = EventSubject::pod(&uid, &FullName::new(&name, &namespace));
            let message = duplicate(&name, &namespace, &uid);
            context.tell(&self.args.event_recorder, subject.warning(EventReason::FailedValidation, message));
        }
        unique
    }

    fn refuse(&mut self, refused: Option<RefusedManifest>, context: &Context<HttpSourceMsg>) {
        if self.refused.as_ref() != Some(&refused) {
            self.refused = Some(refused);
            self.tell_refused(context);
        }
    }

    fn tell_refused(&self, context: &Context<HttpSourceMsg>) {
        let refused = StatusManagerMsg::Refused(SourceKind::Http, self.refused.iter().flatten().cloned().collect());
        context.tell(&self.args.status_manager, refused);
    }

    /// A set that there is no room for goes out after the next fetch, as if it had brought something else.
    fn tell(&mut self, context: &Context<HttpSourceMsg>) {
        let pods = self.told.clone().unwrap_or_default();
        let set = PodManagerMsg::SourceSet { source: SourceKind::Http, pods, lives: BTreeMap::new() };
        if !context.try_tell(&self.args.pod_manager, set) {
            self.body = None;
        }
    }
}

/// The message of the Event about a pod whose name another one has.
fn duplicate(name: &str, namespace: &str, uid: &PodUid) -> String {
    format!("Error validating pod {name}_{namespace}({uid}) from http due to duplicate pod name \"{name}\", ignoring")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-04.
    #[test]
    fn a_second_pod_of_a_name_is_told_in_upstreams_words() {
        let expected = "Error validating pod web_shop(u1) from http due to duplicate pod name \"web\", ignoring";
        assert_eq!(duplicate("web", "shop", &"u1".into()), expected);
    }
}
