//! The operations of `ImageGc`: a look at images and their disk, a list of images, and the removal of some.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Args;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::cri::{ContainerFilter, CriError, Image, ImageSpec, RuntimeService};
use crate::logic::images::image_garbage::{DiskUse, ListedImage, Pass, of_handler};
use crate::messages::images::image_gc::{ImageGcMsg, ImageLook, ImagesRemoved, ListedImages};

/// Patience with the actor's own answer.
const ASK_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn look(args: &Args) -> Result<ImageLook, String> {
    let (images, used) = list(args).await?;
    Ok(ImageLook { images, used, disk: disk(args).await })
}

pub(super) async fn list(args: &Args) -> Result<ListedImages, String> {
    let images = args.images.list_images(None).await.map_err(|error| error.to_string())?;
    let containers = args.runtime.list_containers(&ContainerFilter::default()).await;
    let containers = containers.map_err(|error| error.to_string())?;
    let listed = |image: Image| {
        let names: Vec<String> = image.repo_tags.into_iter().chain(image.repo_digests).collect();
        let pinned = image.pinned || args.exempt.has(&names);
        let handler = if args.by_handler { image.runtime_handler } else { String::new() };
        ListedImage { names, id: image.id, bytes: image.size, pinned, handler }
    };
    let used = containers.into_iter().flat_map(|one| {
        let handler = if args.by_handler { one.image_handler } else { String::new() };
        let references = [one.image, one.image_ref, one.image_id].into_iter().filter(|reference| !reference.is_empty());
        references.map(move |reference| of_handler(&reference, &handler))
    });
    Ok((images.into_iter().map(listed).collect(), used.collect()))
}

/// Use of the file system that the runtime has its images on.
async fn disk(args: &Args) -> Result<DiskUse, String> {
    let told = args.images.image_fs_info().await.map_err(|error| error.to_string())?;
    let Some(file_system) = told.image_filesystems.into_iter().next() else {
        return Err("the runtime tells no file system of images".to_owned());
    };
    let disk = args.host.disk_use(&file_system.mountpoint).await;
    disk.map_err(|error| error.to_string())
}

/// Removes candidates one after the other until enough is freed. The images that a container has mounted as volumes are
/// found out only now, since each container must be asked; at rest nothing is.
/// While it lasts, pods are given images: those stay.
pub(super) async fn remove(
    args: &Args,
    pass: Pass,
    me: Address<ImageGcMsg>,
    cause: Cause,
) -> Result<ImagesRemoved, String> {
    let mounted = mounted(&*args.runtime).await?;
    let mut outcome = ImagesRemoved { mounted, ..ImagesRemoved::default() };
    let mut freed = 0_u64;
    for image in pass.candidates {
        if pass.wanted.is_some_and(|wanted| freed >= wanted) {
            break;
        }
        let mounted = &outcome.mounted;
        if mounted.contains(&image.id) || image.names.iter().any(|name| mounted.contains(name)) {
            continue;
        }
        let question = |reply| ImageGcMsg::MayGo(Box::new(image.clone()), reply);
        if !me.ask(cause.clone(), ASK_LIMIT, question).await.unwrap_or(false) {
            continue;
        }
        let (id, runtime_handler) = (image.id.clone(), image.handler.clone());
        let spec = ImageSpec { image: id, runtime_handler, ..ImageSpec::default() };
        match args.images.remove_image(&spec).await {
            Ok(()) => {
                freed = freed.saturating_add(image.bytes);
                outcome.removed.push(image);
            }
            Err(error) => outcome.problems.push(format!("{}: {error}", image.display_name())),
        }
    }
    Ok(outcome)
}

/// Images that containers have as volumes, by ID or name.
async fn mounted(runtime: &dyn RuntimeService) -> Result<BTreeSet<String>, String> {
    let containers = runtime.list_containers(&ContainerFilter::default()).await.map_err(|error| error.to_string())?;
    let mut mounted = BTreeSet::new();
    for container in containers {
        let status = match runtime.container_status(&container.id).await {
            Ok(status) => status,
            // It was removed meanwhile.
            Err(CriError::NotFound { .. }) => continue,
            Err(error) => return Err(format!("get container status: {error}")),
        };
        let images = status.mounts.into_iter().filter_map(|mount| mount.image);
        mounted.extend(images.flat_map(|image| [image.image, image.image_ref]).filter(|name| !name.is_empty()));
    }
    Ok(mounted)
}
