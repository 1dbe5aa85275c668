//! `CertificateManager`: has the cluster sign the agent's certificates, and exchanges them in time.
//!
//! Parent: Root. Restarted: after a failure; what is held is in the adapters and on disk, `NodeStatus` tells the addresses
//! again, and what was asked for is asked for again. Keeps when which certificate is due. Has nothing to do where the
//! credentials are the administrator's.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::node::certificate_plan::{Names, Purpose, Without, without_certificate};
use crate::logic::node::certificate_rotation::{Action, Held, Input, Missed, Rotation, When};
use crate::messages::node::certificate_manager::{CertificateManagerMsg, Reread};
use crate::messages::{Ended, Lost};
use crate::platform::cluster::certificates::{Certificates, ClientAuthorities, KeptCertificate, Marks, ServingFiles};
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::host::blocking;
use crate::platform::host::chance::Chance;

/// How often it is looked whether the client certificate is still there, and the wall clock, which may be set, is read.
const LOOK_PERIOD: Duration = Duration::from_secs(10);
/// How often it is looked whether somebody touched the files of the serving certificate, or that of the authorities.
const FILES_PERIOD: Duration = Duration::from_secs(10);

/// The actor's arguments.
pub struct Args {
    /// The node's name, which the client certificate is for.
    pub node_name: String,
    /// Whether a serving certificate may be for names alone.
    pub names_alone_serve: bool,
    /// The agent's certificates.
    pub certificates: Arc<Certificates>,
    /// The API server, where one is named: without one nothing is signed.
    pub api: Option<ApiServer>,
    /// Spreads renewals and retries.
    pub chance: Arc<dyn Chance>,
}

/// One certificate that the cluster signs.
struct Kept {
    certificate: Arc<KeptCertificate>,
    rotation: Rotation,
    asking: Option<OperationId>,
}

/// See the module.
pub struct CertificateManager {
    args: Args,
    client: Option<Kept>,
    serving: Option<Kept>,
    /// Whether the API server answered when it was asked for the client certificate last; as upstream, not before it has.
    server_answers: bool,
    /// The uptime at which there was a client certificate that holds.
    client_seen: Duration,
    /// The uptime at which files were looked at.
    files_read: Duration,
    /// How the serving certificate's files were found, and how the authorities'.
    marks: [Arc<Marks>; 2],
    /// Their reads: a disk that does not answer has one of each waiting.
    reads: [SingleFlight<()>; 2],
    look: Option<OperationId>,
}

impl Actor for CertificateManager {
    const KIND: &'static str = "CertificateManager";
    type Msg = CertificateManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<CertificateManagerMsg>) -> Self {
        let certificates = &args.certificates;
        let kept = |certificate: &Option<Arc<KeptCertificate>>| {
            let certificate = Arc::clone(certificate.as_ref().filter(|_| args.api.is_some())?);
            let (exchanged, provisional) = (certificate.is_exchanged(), certificate.is_provisional());
            let rotation = Rotation::new(exchanged, certificate.held(), provisional, args.chance.next());
            Some(Kept { certificate, rotation, asking: None })
        };
        let (client, serving) = (kept(&certificates.client), kept(&certificates.serving));
        let uptime = context.clock().uptime();
        let mut manager = Self {
            args,
            client,
            serving,
            server_answers: false,
            client_seen: uptime,
            files_read: uptime,
            marks: Default::default(),
            reads: Default::default(),
            look: None,
        };
        manager.step(Purpose::Client, Input::Wanted(Names::of_client(&manager.args.node_name)), context);
        manager.wait(context);
        manager
    }

    fn receive(&mut self, message: CertificateManagerMsg, context: &mut Context<CertificateManagerMsg>) {
        match message {
            CertificateManagerMsg::LookDue => self.look(context),
            CertificateManagerMsg::Obtained(purpose, outcome) => self.obtained(purpose, outcome, context),
            CertificateManagerMsg::AddressesChanged(addresses) => self.hear(&addresses, context),
            CertificateManagerMsg::FilesRead(outcome) => {
                tell_of_files(outcome);
                if let (_, Some(())) = self.reads[0].end() {
                    self.read_serving(context);
                }
            }
            CertificateManagerMsg::AuthoritiesRead(outcome) => {
                tell_of_authorities(outcome);
                if let (_, Some(())) = self.reads[1].end() {
                    self.read_authorities(context);
                }
            }
        }
        self.wait(context);
    }
}

impl CertificateManager {
    fn look(&mut self, context: &mut Context<CertificateManagerMsg>) {
        self.look = None;
        self.step(Purpose::Client, Input::Looked, context);
        self.step(Purpose::Serving, Input::Looked, context);
        self.check_client(context);
        self.read_files(context);
    }

    /// Whether the agent can go on: without a client certificate, for long, it cannot.
    fn check_client(&mut self, context: &mut Context<CertificateManagerMsg>) {
        let Some(client) = self.client.as_ref().filter(|client| client.certificate.is_exchanged()) else { return };
        let uptime = context.clock().uptime();
        if client.certificate.current().is_some() {
            self.client_seen = uptime;
        }
        let hopeless = &self.args.certificates.hopeless;
        let since = uptime.saturating_sub(self.client_seen);
        match without_certificate(since, self.server_answers) {
            Without::Bearable => {}
            Without::Unreachable(problem) => tracing::error!(without_for = ?since, "{problem}"),
            Without::Exit(problem) => {
                tracing::error!(without_for = ?since, "{problem}");
                // The next incarnation says the same, until Root gives up.
                let _ = hopeless.set(problem);
            }
        }
        if let Some(problem) = hopeless.get() {
            context.escalate((*problem).to_owned());
        }
    }

    fn obtained(
        &mut self,
        purpose: Purpose,
        outcome: Ended<Box<Held>, Missed>,
        context: &mut Context<CertificateManagerMsg>,
    ) {
        if let Some(kept) = self.kept(purpose) {
            kept.asking = None;
        }
        let input = match outcome {
            Ended::Done(held) => {
                self.heard(purpose, Some(true));
                let expiration = held.not_after.to_timestamp();
                match purpose {
                    Purpose::Client => tracing::info!(
                        %expiration,
                        "Certificate rotation detected, shutting down client connections to start using new credentials"
                    ),
                    Purpose::Serving => tracing::info!(%expiration, "Serving certificate rotated"),
                }
                Input::Issued(*held)
            }
            Ended::Failed(Missed { problem, server_answers }) => {
                self.heard(purpose, server_answers);
                tracing::error!(purpose = purpose.name(), error = problem, "no certificate, will retry");
                Input::Failed
            }
            Ended::Lost(_) => Input::Failed, // It was logged as it happened.
        };
        self.step(purpose, input, context);
    }

    /// The sight of the server counts for the client certificate alone: without one, nothing else is asked of it.
    fn heard(&mut self, purpose: Purpose, answers: Option<bool>) {
        if let (Purpose::Client, Some(answers)) = (purpose, answers) {
            self.server_answers = answers;
        }
    }

    /// The serving certificate is for the node's addresses.
    fn hear(&mut self, addresses: &[(String, String)], context: &mut Context<CertificateManagerMsg>) {
        let addresses = addresses.iter().map(|(kind, address)| (kind.as_str(), address.as_str()));
        // As long as there are none to be asked for, an earlier certificate does.
        if let Some(names) = Names::of_server(&self.args.node_name, addresses, self.args.names_alone_serve) {
            self.step(Purpose::Serving, Input::Wanted(names), context);
        }
    }

    fn step(&mut self, purpose: Purpose, input: Input, context: &mut Context<CertificateManagerMsg>) {
        let when = self.when(context);
        let Some(kept) = self.kept(purpose) else { return };
        for action in kept.rotation.step(input, when) {
            self.perform(purpose, action, context);
        }
    }

    fn perform(&mut self, purpose: Purpose, action: Action, context: &mut Context<CertificateManagerMsg>) {
        let (Some(api), chance) = (self.args.api.clone(), Arc::clone(&self.args.chance)) else {
            return;
        };
        let Some(kept) = self.kept(purpose) else { return };
        match action {
            Action::Ask(names) => {
                tracing::info!(purpose = purpose.name(), "Rotating certificates");
                let certificate = Arc::clone(&kept.certificate);
                let work = async move {
                    let obtained = certificate.obtain(api, &names, || chance.next()).await;
                    obtained
                        .map(Box::new)
                        .map_err(|error| Missed { server_answers: error.server_answers(), problem: error.to_string() })
                };
                let ended = move |outcome: Result<_, Lost>| CertificateManagerMsg::Obtained(purpose, outcome.into());
                kept.asking = Some(context.start("obtain certificate", purpose.name(), work, ended));
            }
            Action::Abandon => {
                if let Some(asking) = kept.asking.take() {
                    context.cancel(asking);
                }
            }
        }
    }

    /// Reads the serving certificate's files, and the authorities of users' certificates, when that is due and somebody
    /// touched them.
    fn read_files(&mut self, context: &mut Context<CertificateManagerMsg>) {
        let uptime = context.clock().uptime();
        if uptime.saturating_sub(self.files_read) < FILES_PERIOD {
            return;
        }
        self.files_read = uptime;
        self.read_serving(context);
        self.read_authorities(context);
    }

    fn read_serving(&mut self, context: &mut Context<CertificateManagerMsg>) {
        let Some(files) = self.reloaded_files().cloned() else { return };
        if self.reads[0].want(()).is_none() {
            return;
        }
        let about = files.chain.display().to_string();
        let (shown, marks) = (Arc::clone(&self.args.certificates.shown), Arc::clone(&self.marks[0]));
        let work = blocking::run(move || {
            let read = || files.read().map(|pair| shown.set(pair));
            let read = marks.read_if_touched(&[&files.chain, &files.key], read);
            read.map_err(|error| error.to_string())
        });
        context.start("read serving certificate", about, work, |read| {
            CertificateManagerMsg::FilesRead(Ended::from(read).into())
        });
    }

    fn read_authorities(&mut self, context: &mut Context<CertificateManagerMsg>) {
        let Some(authorities) = self.reloaded_authorities().cloned() else { return };
        if self.reads[1].want(()).is_none() {
            return;
        }
        let (about, marks) = (authorities.path().display().to_string(), Arc::clone(&self.marks[1]));
        let work = blocking::run(move || {
            let path = authorities.path();
            let read = marks.read_if_touched(&[path], || authorities.read_again());
            read.map_err(|error| format!("client CA file {}: {error}", path.display()))
        });
        context.start("read client authorities", about, work, |read| {
            CertificateManagerMsg::AuthoritiesRead(Ended::from(read).into())
        });
    }

    fn reloaded_authorities(&self) -> Option<&Arc<ClientAuthorities>> {
        self.args.certificates.authorities.as_ref().filter(|authorities| authorities.reload)
    }

    fn reloaded_files(&self) -> Option<&ServingFiles> {
        self.args.certificates.files.as_ref().filter(|files| files.reload)
    }

    /// Looks again when something is due, and now and then: the wall clock may be set, files may be exchanged.
    fn wait(&mut self, context: &mut Context<CertificateManagerMsg>) {
        if let Some(look) = self.look.take() {
            context.cancel(look);
        }
        let when = self.when(context);
        let kept: Vec<&Kept> = self.client.iter().chain(&self.serving).collect();
        let reads_files = self.reloaded_files().is_some() || self.reloaded_authorities().is_some();
        let files = reads_files.then(|| FILES_PERIOD.saturating_sub(when.uptime.saturating_sub(self.files_read)));
        let due = kept.iter().filter_map(|kept| kept.rotation.rest(when)).chain(files);
        let period = (!kept.is_empty()).then_some(LOOK_PERIOD);
        // A certificate that cannot go on does not wait to say so again.
        let at_once = self.args.certificates.hopeless.get().map(|_| Duration::ZERO);
        if let Some(wait) = due.chain(period).chain(at_once).min() {
            self.look = Some(context.after(wait, CertificateManagerMsg::LookDue));
        }
    }

    fn kept(&mut self, purpose: Purpose) -> Option<&mut Kept> {
        match purpose {
            Purpose::Client => self.client.as_mut(),
            Purpose::Serving => self.serving.as_mut(),
        }
    }

    fn when(&self, context: &Context<CertificateManagerMsg>) -> When {
        When { now: context.now(), uptime: context.clock().uptime(), chance: self.args.chance.next() }
    }
}

fn tell_of_authorities(read: Reread) {
    match read {
        Reread::Changed => tracing::info!("loaded client CA file"),
        Reread::Refused(error) => tracing::error!(error, "the client CA file is no good, its last content counts"),
        Reread::Unchanged | Reread::Lost => {}
    }
}

fn tell_of_files(read: Reread) {
    match read {
        Reread::Changed => tracing::info!("loaded certificate and key pair in kubelet server certificate manager"),
        // Half written, maybe: the server presents the old one until the new one is whole.
        Reread::Refused(error) => tracing::error!(error, "invalid certificate and key pair from file"),
        Reread::Unchanged | Reread::Lost => {}
    }
}
