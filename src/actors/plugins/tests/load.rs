//! Many volumes of one driver beside each other.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::*;
use crate::platform::host::clock::Clock;

/// A node with so many pods, each with a claim whose volume is the driver's. `None` without the right to mount.
async fn setup(pods: usize) -> Option<(Setup, Serving, Vec<Arc<Pod>>)> {
    let setup = Setup::new()?;
    let serving = setup.serve().await;
    let spec = |number: usize| {
        json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "claimRef": { "uid": format!("claim-{number}") },
            "csi": { "driver": "drv.test", "volumeHandle": format!("h-{number}") },
        } })
    };
    let claim = |number: usize| {
        json!({
            "metadata": { "uid": format!("claim-{number}") }, "spec": { "volumeName": format!("pv-{number}") },
            "status": { "phase": "Bound" },
        })
    };
    let pod = |number: usize| {
        setup.server.put(&format!("/api/v1/persistentvolumes/pv-{number}"), spec(number));
        setup.server.put(&format!("/api/v1/namespaces/ns/persistentvolumeclaims/data-{number}"), claim(number));
        let source = json!({ "persistentVolumeClaim": { "claimName": format!("data-{number}") } });
        pod_with(&format!("pod-{number}"), &source)
    };
    let pods = (0..pods).map(pod).collect();
    Some((setup, serving, pods))
}

async fn mount(setup: &Setup, pods: &[Arc<Pod>]) {
    for mounted in join_all(pods.iter().map(|pod| setup.ensure(pod))).await {
        mounted.expect("mounted");
    }
}

async fn release(setup: &Setup, pods: &[Arc<Pod>]) {
    let uid = |pod: &Arc<Pod>| pod.metadata.uid.clone().expect("a UID");
    join_all(pods.iter().map(|pod| async { setup.release(&uid(pod)).await })).await;
    let folder = setup.path("plugins/kubernetes.io/csi/drv.test");
    let is_empty = || fs::read_dir(&folder).map_or(true, |mut left| left.next().is_none());
    setup.eventually("all are unstaged", is_empty).await;
}

/// VOL-41, VOL-45: a driver is asked once for each step of each volume, however many pods come and go together.
#[tokio::test(flavor = "multi_thread")]
async fn vol_41_pods_that_go_together_have_their_volumes_unstaged_once_each() {
    const PODS: usize = 20;
    let Some((setup, _serving, pods)) = setup(PODS).await else { return };
    mount(&setup, &pods).await;
    setup.driver.switches().takes = Duration::from_millis(5);
    release(&setup, &pods).await;
    let calls = setup.driver.calls();
    for method in ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"] {
        let asked: Vec<&String> = calls.iter().filter(|call| call.starts_with(method)).collect();
        let volumes: BTreeSet<&str> = asked.iter().filter_map(|call| Some(call.split_once(' ')?.1)).collect();
        assert_eq!((asked.len(), volumes.len()), (PODS, PODS), "{method}: {asked:?}");
    }
}

/// VOL-41: 50 pods with a volume each, against the three calls that each needs one after the other. The driver's mounts come on
/// top of these.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures in real time; for people who look at the figures"]
async fn vol_41_what_fifty_volumes_cost_beside_each_other() {
    const CALL: Duration = Duration::from_millis(200);
    let Some((setup, _serving, pods)) = setup(50).await else { return };
    setup.driver.switches().takes = CALL;
    let clock = SystemClock::start();
    mount(&setup, &pods).await;
    let took = clock.uptime();
    let ratio = took.as_secs_f64() / (3 * CALL).as_secs_f64();
    eprintln!(
        "50 pods with a volume each: {} ms, {ratio:.2} times what the driver waits in its calls",
        took.as_millis()
    );
    setup.driver.switches().takes = Duration::ZERO;
    release(&setup, &pods).await;
}
