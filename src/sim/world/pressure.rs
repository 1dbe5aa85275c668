//! Pressure on a simulated node, as tests make it.

use super::World;
use crate::actors::kit::trace::lock;
use crate::logic::eviction::layout::DiskLayout;
use crate::sim::node::appetites::Beside;

impl World {
    /// The container uses so many bytes of memory from now on.
    pub fn use_memory(&self, pod: &str, bytes: u64) {
        for container in lock(&self.node().containers).containers.values_mut().filter(|one| one.pod == pod) {
            container.memory = bytes;
        }
        self.node().memory_changed.notify_waiters();
    }

    /// So many bytes of the container's memory are swapped out from now on.
    pub fn swap_out(&self, pod: &str, bytes: u64) {
        for container in lock(&self.node().containers).containers.values_mut().filter(|one| one.pod == pod) {
            container.swap = bytes;
        }
        self.node().memory_changed.notify_waiters();
    }

    /// The disk of the images is full, or has room again.
    pub fn fill_images(&self, full: bool) {
        let was = std::mem::replace(&mut lock(&self.node().images).disk_is_full, full);
        if was != full {
            self.node().story.tell("fault", format!("the images' disk is {}", if full { "full" } else { "not full" }));
        }
    }

    /// Where images and writable layers lie, from now on: before the agent's start.
    pub fn lay_out(&self, layout: DiskLayout) {
        lock(&self.node().beside).layout = layout;
    }

    /// Content that belongs to no pod, from now on; the layout of the disks stays.
    pub fn put_beside(&self, beside: Beside) {
        self.node().story.tell("fault", format!("beside pods there is {beside:?}"));
        let mut now = lock(&self.node().beside);
        *now = Beside { layout: now.layout, refuses_writes: now.refuses_writes, ..beside };
    }

    /// No file can be written any more, or all can again.
    pub fn refuse_writes(&self, refused: bool) {
        let how = if refused { "no file can be written" } else { "files can be written" };
        self.node().story.tell("fault", how.to_owned());
        lock(&self.node().beside).refuses_writes = refused;
    }

    /// The signals of evictions that agents counted so far, the oldest first.
    pub fn evictions_counted(&self) -> Vec<&'static str> {
        lock(&self.node().evicted).clone()
    }
}
