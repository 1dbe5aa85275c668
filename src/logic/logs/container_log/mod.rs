//! Reading containers' logs: what a reader asks for, whose log it is, what a line says, and which parts the reader gets
//! (SRV-33 to SRV-36, CRI-32).
//!
//! Pure. The files are read by `platform::logs::log_reader`, block by block; whatever a file holds, what is kept of it here is
//! bounded.

pub mod entry;
pub mod printer;
pub mod query;
pub mod selection;
