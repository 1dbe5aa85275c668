//! Volumes of CSI drivers: a task asks the driver, and has the disk remember what was asked.

pub(super) mod mounting;
mod unmounting;
mod words;
