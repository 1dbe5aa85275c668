//! The agent's own tree over the socket: real adapters for the runtime and for pods' files, played ones for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use podwright::actors::agent::{
    Adapters, Agent, ClusterAdapters, LogAdapters, NodeAdapters, PluginAdapters, PodAdapters, SourceAdapters,
};
use podwright::actors::kit::trace::{Cause, Trace};
use podwright::actors::settings::Settings;
use podwright::actors::tree::Directory;
use podwright::actors::wiring;
use podwright::cri::grpc::GrpcRuntime;
use podwright::logic::model::ids::PodUid;
use podwright::logic::model::time::Moment;
use podwright::logic::pods::pod_admission::SysctlAllowList;
use podwright::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use podwright::logic::resources::{CgroupSettings, CgroupVersion};
use podwright::logic::volumes::content::token::TokenKey;
use podwright::logic::volumes::order::{SetUp, SubPathOrder, VolumePlace};
use podwright::messages::event_recorder::EventRecorderMsg;
use podwright::messages::pods::pod_manager::PodManagerMsg;
use podwright::messages::pods::pod_source::SourceKind;
use podwright::platform::cgroup::{CgroupError, CgroupManager};
use podwright::platform::cluster::objects::{ObjectError, Objects, Token};
use podwright::platform::files::checkpoints::FileCheckpoints;
use podwright::platform::host::chance::SystemChance;
use podwright::platform::host::clock::SystemClock;
use podwright::platform::host::node_facts::FixedNodeFacts;
use podwright::platform::host::systemd::ServiceManager;
use podwright::platform::images::LinuxImageHost;
use podwright::platform::logs::container_logs::LinuxContainerLogs;
use podwright::platform::logs::log_reader::LinuxLogReader;
use podwright::platform::logs::node_logs::LinuxNodeLogs;
use podwright::platform::network::network_probe::HostProber;
use podwright::platform::network::tls::Offer;
use podwright::platform::pods::pod_files::LinuxPodFiles;
use podwright::platform::pods::user_namespace_files::LinuxUserNamespaceFiles;
use podwright::platform::volumes::{Progress, VolumeError, VolumeHost};
use serde_json::{Value, json};

/// Cgroups that are always as they should be.
struct CalmCgroups;

impl CgroupManager for CalmCgroups {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }
    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Cgroupfs
    }
    fn validate(&self, _: &CgroupName) -> Result<(), CgroupError> {
        Ok(())
    }
    fn create(&self, _: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        Ok(())
    }
    fn update(&self, _: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        Ok(())
    }
    fn destroy(&self, _: &CgroupName) -> Result<(), CgroupError> {
        Ok(())
    }
    fn pids(&self, _: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        Ok(BTreeSet::new())
    }
    fn list_pods(&self, _: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        Ok(Vec::new())
    }
    fn read(&self, _: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        Ok(CgroupSettings::default())
    }
    fn memory_usage(&self, _: &CgroupName) -> Result<u64, CgroupError> {
        Ok(0)
    }
}

struct NoServiceManager;

impl ServiceManager for NoServiceManager {
    fn feed_watchdog(&self) {}
}

/// Volumes that are always there, with one file of variables in each.
struct CalmVolumes;

#[async_trait]
impl VolumeHost for CalmVolumes {
    fn path_of(&self, place: &VolumePlace) -> String {
        format!("/volumes/{}/{}", place.plugin, place.name)
    }
    fn map_paths(&self, place: &VolumePlace) -> [String; 2] {
        [format!("/maps/{}", place.name), format!("/links/{}", place.name)]
    }
    async fn set_up_watched(
        &self,
        _: &PodUid,
        _: Option<&VolumePlace>,
        _: SetUp,
        _: Arc<Progress>,
    ) -> Result<Option<String>, VolumeError> {
        Ok(None)
    }
    async fn tear_down(&self, _: &VolumePlace) -> Result<(), VolumeError> {
        Ok(())
    }
    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError> {
        Ok(format!("/parts/{}/{}/{}", order.volume, order.container, order.index))
    }
    async fn read_file(&self, volume: &str, path: &str, _: usize) -> Result<Option<Vec<u8>>, VolumeError> {
        let text = format!("WHERE='{volume}/{path}'\nLINES='one\ntwo'\n");
        Ok((path != "missing").then(|| text.into_bytes()))
    }
    async fn volumes_of(&self, _: &PodUid) -> Result<Vec<VolumePlace>, VolumeError> {
        Ok(vec![])
    }
    async fn release(&self, _: &PodUid) -> Result<(), VolumeError> {
        Ok(())
    }
    fn hanging(&self) -> Vec<(String, Moment)> {
        vec![]
    }
}

/// The API server's objects: a ConfigMap `cm`, a Secret `secret`, a RuntimeClass `small`, two services.
struct FixedObjects;

fn object<T: serde::de::DeserializeOwned>(kind: &str, name: &str, value: Option<Value>) -> Result<Arc<T>, ObjectError> {
    let missing = || ObjectError::NotFound(format!("{kind} \"{name}\" not found"));
    Ok(Arc::new(serde_json::from_value(value.ok_or_else(missing)?).unwrap()))
}

#[async_trait]
impl Objects for FixedObjects {
    fn is_connected(&self) -> bool {
        true
    }
    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        let data = json!({ "data": { "level": "high", "colour": "red" }, "binaryData": { "raw": "/w==" } });
        object("configmap", name, (name == "cm").then_some(data))
    }
    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        object("secret", name, (name == "secret").then(|| json!({ "data": { "password": "aHVudGVyMg==" } })))
    }
    async fn claim(&self, _: &str, name: &str) -> Result<Arc<PersistentVolumeClaim>, ObjectError> {
        object("persistentvolumeclaim", name, None)
    }
    async fn volume(&self, name: &str) -> Result<Arc<PersistentVolume>, ObjectError> {
        object("persistentvolume", name, None)
    }
    async fn runtime_class(&self, name: &str) -> Result<Arc<RuntimeClass>, ObjectError> {
        let class = json!({ "metadata": { "name": name }, "handler": "gvisor" });
        object("runtimeclass.node.k8s.io", name, (name == "small").then_some(class))
    }
    async fn token(&self, _: &TokenKey) -> Result<Token, ObjectError> {
        Err(ObjectError::Unavailable("none".to_owned()))
    }
    async fn service_variables(&self, _: &str, links: bool, _: bool) -> Option<Arc<BTreeMap<String, String>>> {
        let mut all = BTreeMap::from([("KUBERNETES_SERVICE_HOST".to_owned(), "10.96.0.1".to_owned())]);
        if links {
            all.insert("WEB_SERVICE_HOST".to_owned(), "10.96.0.7".to_owned());
        }
        Some(Arc::new(all))
    }
}

/// The node of the cases: 8 GiB of memory, the cluster's resolver, two sizes of huge pages.
fn settings(root_dir: &str, patch: &Value) -> Settings {
    let mut settings = podwright::sim::agent::settings(Moment(0));
    settings.logs.folder = format!("{root_dir}/logs");
    settings.security.seccomp_root = "/kubelet/seccomp".to_owned();
    settings.network.dns.cluster_dns = vec![std::net::IpAddr::from([10, 96, 0, 10])];
    settings.network.dns.resolv_conf = None;
    settings.resources.hugepage_sizes = vec![2 << 20, 1 << 30];
    settings.runtime.evented = false;
    let cpus = podwright::logic::model::quantity::Quantity::from_milli(4000);
    settings.resources.allocatable = [("cpu".to_owned(), cpus)].into();
    settings.security.sysctls = SysctlAllowList::new("6.1", &["kernel.msg*".to_owned()]).unwrap();
    settings.security.app_armor = true;
    let flag = |name: &str| patch[name] == true;
    settings.security.seccomp_default = flag("seccompDefault");
    settings.security.selinux = flag("selinux");
    settings.resources.options.cpu_cfs_quota = patch["cpuCFSQuota"] != false;
    settings.resources.options.single_process_oom_kill = flag("singleProcessOOMKill");
    settings.resources.options.swap_controller = flag("swapController");
    if patch["env_files"] == false {
        settings.pods.env_files = false;
    }
    settings
}

/// The agent, without listeners.
pub fn agent(root_dir: &Path, runtime: GrpcRuntime, patch: &Value) -> Arc<Agent> {
    let runtime = Arc::new(runtime);
    let trace = Trace::new(Arc::new(SystemClock::start()));
    let hosts = root_dir.join("node-hosts");
    std::fs::write(&hosts, "127.0.0.1\tlocalhost\n").unwrap();
    let files = LinuxPodFiles::new(root_dir, root_dir.join("logs"), None).with_node_hosts(hosts);
    let adapters = Adapters {
        runtime: runtime.clone(),
        images: runtime,
        image_host: Arc::new(LinuxImageHost::new(root_dir, root_dir)),
        checkpoints: Arc::new(FileCheckpoints::new(root_dir)),
        cgroups: Arc::new(CalmCgroups),
        chance: Arc::new(SystemChance::from_kernel()),
        service_manager: Arc::new(NoServiceManager),
        observer: Arc::new(podwright::platform::observer::Unobserved),
        pods: PodAdapters {
            files: Arc::new(files),
            user_namespaces: Arc::new(LinuxUserNamespaceFiles::new(root_dir)),
            volumes: Arc::new(CalmVolumes),
            prober: Arc::new(HostProber::new(Offer::from_environment())),
            ends: Arc::default(),
            probe_store: Default::default(),
        },
        plugins: PluginAdapters::none(),
        logs: LogAdapters {
            containers: Arc::new(LinuxContainerLogs::new(root_dir.join("logs"))),
            reader: Arc::new(LinuxLogReader::new(root_dir.join("logs"))),
            node: Arc::new(LinuxNodeLogs::new("/nowhere".into(), "/bin/false".into())),
        },
        cluster: ClusterAdapters {
            objects: Arc::new(FixedObjects),
            offline: None,
            api: None,
            certificates: Default::default(),
            doubt_connections: Arc::new(|| {}),
        },
        sources: SourceAdapters { folder: None, url: None, objects: None },
        node: NodeAdapters {
            statistics: Arc::new(podwright::platform::statistics::FixedStatistics::new(Arc::clone(trace.clock()))),
            facts: Arc::new(FixedNodeFacts::of_a_small_node()),
            network_rules: Arc::new(podwright::platform::network::network_rules::NoNetworkRules),
            kernel_log: Arc::new(podwright::platform::host::kernel_log::NoKernelLog),
            placement: Arc::new(podwright::platform::cgroup::process_placement::NoPlacement),
            logind: Arc::new(podwright::platform::host::logind::NoLogind),
        },
    };
    let directory = Directory::new(&trace);
    Arc::new(Agent {
        settings: settings(root_dir.to_str().unwrap(), patch),
        adapters,
        directory,
        trace,
        listeners: vec![],
    })
}

/// Starts the tree, and has it want these pods, as the API server would.
pub async fn want(agent: &Arc<Agent>, pods: BTreeMap<PodUid, Arc<Pod>>) {
    wiring::start(Arc::clone(agent));
    while !agent.directory.server.is_up() {
        tokio::task::yield_now().await;
    }
    let labels = json!({ "kubernetes.io/os": "linux" });
    let allocatable =
        json!({ "cpu": "100", "memory": "1Ti", "pods": "1000", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "4Gi" });
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": podwright::sim::node::NODE_NAME, "labels": labels },
        "status": { "allocatable": allocatable },
    }))
    .unwrap();
    let to = &agent.directory.pod_manager;
    to.tell(Cause::outside("test"), PodManagerMsg::NodeChanged(Arc::new(node))).unwrap();
    to.tell(Cause::outside("test"), PodManagerMsg::SourceSet { source: SourceKind::Api, pods, lives: BTreeMap::new() })
        .unwrap();
}

/// The Events about a pod, as `reason: message`.
pub async fn events(agent: &Arc<Agent>, uid: &PodUid) -> Vec<String> {
    let (asked, uid) = (std::time::Duration::from_secs(60), uid.clone());
    let question = |reply| EventRecorderMsg::OfPod(uid, reply);
    let events = agent.directory.event_recorder.ask(Cause::outside("test"), asked, question).await.unwrap();
    events.iter().map(|counted| format!("{}: {}", counted.event.reason, counted.event.message)).collect()
}
