//! Which resources of a node run short.

/// See the module. Each is a condition of the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Disk space or inodes.
    pub disk: bool,
    /// Process numbers.
    pub pid: bool,
}
