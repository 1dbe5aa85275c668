//! CRI's `RuntimeService` over gRPC.

use std::time::Duration;

use async_trait::async_trait;

use super::lists::list;
use super::{DEADLINE_MAX, GrpcRuntime, absent_is_done, ask, seconds};
use crate::cri::instrumented::Call;
use crate::cri::{
    CgroupDriver, Container, ContainerConfig, ContainerEvents, ContainerFilter, ContainerStats, ContainerStatus,
    CriError, CriResult, ExecOutcome, Labels, LinuxContainerResources, MetricDescriptor, PodSandbox, PodSandboxConfig,
    PodSandboxFilter, PodSandboxMetrics, PodSandboxStats, PodSandboxStatus, REOPEN_LIMIT, RuntimeService,
    RuntimeStatus, RuntimeVersion, StatsFilter, Streams, convert, wire,
};
use crate::logic::model::ids::{ContainerId, SandboxId};

#[async_trait]
impl RuntimeService for GrpcRuntime {
    async fn version(&self) -> CriResult<RuntimeVersion> {
        self.typed_version().await
    }

    async fn status(&self) -> CriResult<RuntimeStatus> {
        let request = wire::StatusRequest { verbose: false };
        ask!(self.runtime, status, Call::STATUS, self.usual(), request, convert::runtime_status)
    }

    async fn runtime_config(&self) -> CriResult<Option<CgroupDriver>> {
        let request = wire::RuntimeConfigRequest {};
        ask!(self.runtime, runtime_config, Call::RUNTIME_CONFIG, self.usual(), request, convert::cgroup_driver)
    }

    async fn update_runtime_config(&self, pod_cidr: &str) -> CriResult<()> {
        let network_config = Some(wire::NetworkConfig { pod_cidr: pod_cidr.to_owned() });
        let request = wire::UpdateRuntimeConfigRequest { runtime_config: Some(wire::RuntimeConfig { network_config }) };
        ask!(self.runtime, update_runtime_config, Call::UPDATE_RUNTIME_CONFIG, self.usual(), request, done)
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, runtime_handler: &str) -> CriResult<SandboxId> {
        let request =
            wire::RunPodSandboxRequest { config: Some(config.into()), runtime_handler: runtime_handler.to_owned() };
        let limit = Some(self.request_timeout.saturating_mul(2)); // a sandbox waits for its network, too
        ask!(self.runtime, run_pod_sandbox, Call::RUN_POD_SANDBOX, limit, request, |call, answer| {
            convert::required_text(call, "pod_sandbox_id", answer.pod_sandbox_id).map(Into::into)
        })
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> CriResult<()> {
        let request = wire::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        absent_is_done(ask!(self.runtime, stop_pod_sandbox, Call::STOP_POD_SANDBOX, self.usual(), request, done))
    }

    async fn remove_pod_sandbox(&self, id: &SandboxId) -> CriResult<()> {
        let request = wire::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        absent_is_done(ask!(self.runtime, remove_pod_sandbox, Call::REMOVE_POD_SANDBOX, self.usual(), request, done))
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> CriResult<PodSandboxStatus> {
        let request = wire::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: false };
        let read = convert::pod_sandbox_status;
        ask!(self.runtime, pod_sandbox_status, Call::POD_SANDBOX_STATUS, self.usual(), request, read)
    }

    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> CriResult<Vec<PodSandbox>> {
        let streamed = wire::StreamPodSandboxesRequest { filter: Some(filter.into()) };
        let whole = wire::ListPodSandboxRequest { filter: Some(filter.into()) };
        let call = Call::LIST_POD_SANDBOX;
        list!(
            self.runtime, call, self.usual(), convert::pod_sandbox,
            "StreamPodSandboxes" stream_pod_sandboxes(streamed).pod_sandboxes,
            list_pod_sandbox(whole).items
        )
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &PodSandboxConfig,
    ) -> CriResult<ContainerId> {
        let request = wire::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_string(),
            config: Some(config.into()),
            sandbox_config: Some(sandbox_config.into()),
        };
        ask!(self.runtime, create_container, Call::CREATE_CONTAINER, self.usual(), request, |call, answer| {
            convert::required_text(call, "container_id", answer.container_id).map(Into::into)
        })
    }

    async fn start_container(&self, id: &ContainerId) -> CriResult<()> {
        let request = wire::StartContainerRequest { container_id: id.to_string() };
        ask!(self.runtime, start_container, Call::START_CONTAINER, self.usual(), request, done)
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> CriResult<()> {
        let request = wire::StopContainerRequest { container_id: id.to_string(), timeout: seconds(grace) };
        let limit = Some(self.request_timeout.saturating_add(grace));
        absent_is_done(ask!(self.runtime, stop_container, Call::STOP_CONTAINER, limit, request, done))
    }

    async fn remove_container(&self, id: &ContainerId) -> CriResult<()> {
        let request = wire::RemoveContainerRequest { container_id: id.to_string() };
        absent_is_done(ask!(self.runtime, remove_container, Call::REMOVE_CONTAINER, self.usual(), request, done))
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> CriResult<Vec<Container>> {
        let streamed = wire::StreamContainersRequest { filter: Some(filter.into()) };
        let whole = wire::ListContainersRequest { filter: Some(filter.into()) };
        let call = Call::LIST_CONTAINERS;
        list!(
            self.runtime, call, self.usual(), convert::container,
            "StreamContainers" stream_containers(streamed).containers,
            list_containers(whole).containers
        )
    }

    async fn container_status(&self, id: &ContainerId) -> CriResult<ContainerStatus> {
        let request = wire::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        let read = convert::container_status;
        ask!(self.runtime, container_status, Call::CONTAINER_STATUS, self.usual(), request, read)
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxContainerResources,
        annotations: &Labels,
    ) -> CriResult<()> {
        let request = wire::UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources.into()),
            windows: None,
            annotations: annotations.clone(),
        };
        let call = Call::UPDATE_CONTAINER_RESOURCES;
        ask!(self.runtime, update_container_resources, call, self.usual(), request, done)
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxContainerResources,
        resources: &LinuxContainerResources,
    ) -> CriResult<()> {
        let request = wire::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead: Some(overhead.into()),
            resources: Some(resources.into()),
        };
        let call = Call::UPDATE_POD_SANDBOX_RESOURCES;
        ask!(self.runtime, update_pod_sandbox_resources, call, self.usual(), request, done)
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> CriResult<()> {
        let request = wire::ReopenContainerLogRequest { container_id: id.to_string() };
        let limit = self.usual().map(|usual| usual.min(REOPEN_LIMIT));
        ask!(self.runtime, reopen_container_log, Call::REOPEN_CONTAINER_LOG, limit, request, done)
    }

    async fn checkpoint_container(&self, id: &ContainerId, location: &str, limit: Duration) -> CriResult<()> {
        let limit = limit.max(self.request_timeout);
        let request = wire::CheckpointContainerRequest {
            container_id: id.to_string(),
            location: location.to_owned(),
            timeout: seconds(limit),
        };
        ask!(self.runtime, checkpoint_container, Call::CHECKPOINT_CONTAINER, Some(limit), request, done)
    }

    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> CriResult<ExecOutcome> {
        // Zero means "without end" on the wire: part of a second must not become that.
        let whole_seconds = seconds(timeout.saturating_add(Duration::from_nanos(999_999_999)));
        let request =
            wire::ExecSyncRequest { container_id: id.to_string(), cmd: command.to_vec(), timeout: whole_seconds };
        let limit = (!timeout.is_zero()).then(|| self.request_timeout.saturating_add(timeout));
        let mut ended = None;
        let counted = ask!(self.runtime, exec_sync, Call::EXEC_SYNC, limit, request, |_, answer| {
            let exit_code = answer.exit_code;
            ended = Some(ExecOutcome { stdout: answer.stdout, stderr: answer.stderr, exit_code });
            // As upstream, a command that fails counts as a failed call.
            if exit_code == 0 { Ok(()) } else { Err(CriError::Other { code: "OK", message: String::new() }) }
        });
        if let Some(outcome) = ended {
            return Ok(outcome);
        }
        match counted.expect_err("invariant: without an answer there is an error") {
            // Either side may notice first; what ran out is the command's own time.
            CriError::Deadline { call, .. } => Err(CriError::Deadline { call, limit: timeout }),
            other => Err(other),
        }
    }

    async fn exec(&self, id: &ContainerId, command: &[String], streams: Streams) -> CriResult<String> {
        let request = wire::ExecRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        ask!(self.runtime, exec, Call::EXEC, self.usual(), request, |call, answer| {
            convert::required_text(call, "url", answer.url)
        })
    }

    async fn attach(&self, id: &ContainerId, streams: Streams) -> CriResult<String> {
        let request = wire::AttachRequest {
            container_id: id.to_string(),
            stdin: streams.stdin,
            tty: streams.tty,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        ask!(self.runtime, attach, Call::ATTACH, self.usual(), request, |call, answer| {
            convert::required_text(call, "url", answer.url)
        })
    }

    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> CriResult<String> {
        let port = ports.iter().copied().map(i32::from).collect();
        let request = wire::PortForwardRequest { pod_sandbox_id: id.to_string(), port };
        ask!(self.runtime, port_forward, Call::PORT_FORWARD, self.usual(), request, |call, answer| {
            convert::required_text(call, "url", answer.url)
        })
    }

    async fn container_stats(&self, id: &ContainerId) -> CriResult<ContainerStats> {
        let request = wire::ContainerStatsRequest { container_id: id.to_string() };
        ask!(self.runtime, container_stats, Call::CONTAINER_STATS, self.usual(), request, |call, answer| {
            convert::required_message(call, "stats", answer.stats).map(convert::container_stats)
        })
    }

    async fn list_container_stats(&self, filter: &StatsFilter) -> CriResult<Vec<ContainerStats>> {
        let streamed = wire::StreamContainerStatsRequest { filter: Some(filter.into()) };
        let whole = wire::ListContainerStatsRequest { filter: Some(filter.into()) };
        let call = Call::LIST_CONTAINER_STATS;
        list!(
            self.runtime, call, self.usual(), convert::container_stats,
            "StreamContainerStats" stream_container_stats(streamed).container_stats,
            list_container_stats(whole).stats
        )
    }

    async fn pod_sandbox_stats(&self, id: &SandboxId) -> CriResult<PodSandboxStats> {
        let request = wire::PodSandboxStatsRequest { pod_sandbox_id: id.to_string() };
        ask!(self.runtime, pod_sandbox_stats, Call::POD_SANDBOX_STATS, self.usual(), request, |call, answer| {
            convert::required_message(call, "stats", answer.stats).map(convert::pod_sandbox_stats)
        })
    }

    async fn list_pod_sandbox_stats(&self, filter: &StatsFilter) -> CriResult<Vec<PodSandboxStats>> {
        let streamed = wire::StreamPodSandboxStatsRequest { filter: Some(filter.into()) };
        let whole = wire::ListPodSandboxStatsRequest { filter: Some(filter.into()) };
        let call = Call::LIST_POD_SANDBOX_STATS;
        list!(
            self.runtime, call, self.usual(), convert::pod_sandbox_stats,
            "StreamPodSandboxStats" stream_pod_sandbox_stats(streamed).pod_sandbox_stats,
            list_pod_sandbox_stats(whole).stats
        )
    }

    async fn list_metric_descriptors(&self) -> CriResult<Vec<MetricDescriptor>> {
        let request = wire::ListMetricDescriptorsRequest {};
        let call = Call::LIST_METRIC_DESCRIPTORS;
        ask!(self.runtime, list_metric_descriptors, call, self.usual(), request, |_, answer| {
            Ok(answer.descriptors.into_iter().map(convert::metric_descriptor).collect())
        })
    }

    async fn list_pod_sandbox_metrics(&self) -> CriResult<Vec<PodSandboxMetrics>> {
        let streamed = wire::StreamPodSandboxMetricsRequest {};
        let whole = wire::ListPodSandboxMetricsRequest {};
        let call = Call::LIST_POD_SANDBOX_METRICS;
        list!(
            self.runtime, call, self.usual(), convert::pod_sandbox_metrics,
            "StreamPodSandboxMetrics" stream_pod_sandbox_metrics(streamed).pod_sandbox_metrics,
            list_pod_sandbox_metrics(whole).pod_metrics
        )
    }

    async fn container_events(&self) -> CriResult<ContainerEvents> {
        self.open_events().await
    }
}

impl GrpcRuntime {
    /// The deadline of most calls.
    fn usual(&self) -> Option<Duration> {
        Some(self.request_timeout.min(DEADLINE_MAX))
    }
}

/// Reads an answer that says nothing.
fn done<A>(_: &'static str, _: A) -> CriResult<()> {
    Ok(())
}
