//! The arguments of the actors of images.

use std::sync::Arc;

use crate::actors::agent::Agent;
use crate::actors::images::{image_gc, image_manager};

/// Of `ImageManager`.
pub fn image_manager_args(agent: &Agent) -> image_manager::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    image_manager::Args {
        settings: settings.images.clone(),
        images: Arc::clone(&adapters.images),
        host: Arc::clone(&adapters.image_host),
        objects: Arc::clone(&adapters.cluster.objects),
        clock: Arc::clone(agent.trace.clock()),
        observer: Arc::clone(&adapters.observer),
        image_gc: to.image_gc.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}

/// Of `ImageGc`.
pub fn image_gc_args(agent: &Agent) -> image_gc::Args {
    let (settings, adapters, to) = (&agent.settings, &agent.adapters, &agent.directory);
    image_gc::Args {
        node_name: settings.node_name.clone(),
        policy: settings.images.gc,
        exempt: settings.images.gc_exempt.clone(),
        by_handler: settings.images.by_handler,
        images: Arc::clone(&adapters.images),
        runtime: Arc::clone(&adapters.runtime),
        host: Arc::clone(&adapters.image_host),
        observer: Arc::clone(&adapters.observer),
        image_manager: to.image_manager.clone(),
        event_recorder: to.event_recorder.clone(),
    }
}
