//! `/images`: the runtime's images with their use and users, and images that containers wait for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;

use crate::logic::images::image_garbage::ImageUse;
use crate::logic::images::pull_progress::PullStage;
use crate::logic::model::ids::FullName;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::images::image_manager::{ImageManagerMsg, PullProgress};
use crate::messages::runtime::pleg::PlegMsg;
use crate::server::pods::pod_list::{ASK_LIMIT, REQUEST};
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;
use crate::server::views::node_views::{ImageRow, ImagesShown, PullRow};

/// Patience with the actor that asks the runtime.
const RUNTIME_LIMIT: Duration = Duration::from_secs(20);

/// Answers `/images`.
pub(in crate::server) async fn answer(shared: &Shared) -> Reply {
    let directory = &shared.directory;
    let uses = match directory.image_gc.ask(REQUEST, RUNTIME_LIMIT, ImageGcMsg::List).await {
        Ok(Ok(uses)) => uses,
        Ok(Err(why)) => return reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("Internal Error: {why}\n")),
        Err(error) => return reply::unanswered("ImageGc", error),
    };
    let pods = match directory.pleg.ask(REQUEST, ASK_LIMIT, PlegMsg::Pods).await {
        Ok(pods) => pods,
        Err(error) => return reply::unanswered("Pleg", error),
    };
    let progress = match directory.image_manager.ask(REQUEST, ASK_LIMIT, ImageManagerMsg::Progress).await {
        Ok(progress) => progress,
        Err(error) => return reply::unanswered("ImageManager", error),
    };
    reply::json(&images_shown(&uses, &pods, &progress))
}

fn images_shown(uses: &[ImageUse], pods: &[Arc<RuntimePod>], progress: &[PullProgress]) -> ImagesShown {
    let mut pulls: Vec<PullRow> = progress.iter().map(pull).collect();
    pulls.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    ImagesShown { images: uses.iter().map(|one| image(one, pods)).collect(), pulls }
}

fn image(one: &ImageUse, pods: &[Arc<RuntimePod>]) -> ImageRow {
    let is_of = |reference: &str| one.image.is_named(reference);
    let has = |pod: &&Arc<RuntimePod>| {
        pod.containers.iter().any(|container| is_of(&container.process.image) || is_of(&container.process.image_ref))
    };
    let pods: BTreeSet<String> = pods.iter().filter(has).map(|pod| name(&pod.full_name)).collect();
    ImageRow {
        id: one.image.id.clone(),
        names: one.image.names.clone(),
        bytes: one.image.bytes,
        in_use: one.in_use,
        unused_seconds: one.unused_for.map(|span| span.as_secs_f64()),
        kept: one.kept.map(|kept| kept.to_string()).unwrap_or_default(),
        pods: pods.into_iter().collect(),
    }
}

fn pull(one: &PullProgress) -> PullRow {
    let stage: &'static str = one.step.stage.into();
    PullRow {
        image: one.step.image.clone(),
        pod: name(&one.full_name),
        container: one.container.clone().unwrap_or_default(),
        stage: stage.to_owned(),
        ahead: if let PullStage::Queued { ahead } = one.step.stage { ahead } else { 0 },
        seconds: one.step.lasts.as_secs_f64(),
    }
}

fn name(full_name: &FullName) -> String {
    format!("{}/{}", full_name.namespace, full_name.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::images::image_garbage::{Kept, ListedImage};
    use crate::logic::images::pull_progress::PullStep;

    /// PAIN-22, PAIN-37.
    #[test]
    fn pulls_are_listed_by_their_length() {
        let of = |container: &str, stage, seconds| PullProgress {
            uid: "u".into(),
            full_name: FullName::new("web", "shop"),
            container: Some(container.to_owned()),
            step: PullStep { image: "app:1".into(), stage, lasts: Duration::from_secs(seconds) },
        };
        let image = ListedImage {
            id: "sha256:1".into(),
            names: vec!["app:1".into()],
            bytes: 7,
            pinned: true,
            ..Default::default()
        };
        let used = ImageUse { image, in_use: true, unused_for: None, kept: Some(Kept::Pinned) };
        let told =
            images_shown(&[used], &[], &[of("a", PullStage::Queued { ahead: 2 }, 1), of("b", PullStage::Pulled, 9)]);
        let pulls: Vec<_> = told.pulls.iter().map(|one| (&*one.container, &*one.stage, one.ahead)).collect();
        assert_eq!(pulls, [("b", "pulled", 0), ("a", "queued", 2)]);
        assert_eq!((told.pulls[0].pod.as_str(), told.images[0].kept.as_str()), ("shop/web", "pinned"));
    }
}
