//! The terminal at this end of a command: its size, and a mode in which each key goes to the other end.
//!
//! Used by the program's commands, never by the agent. Keeps the mode to go back to.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// The size of the terminal behind standard output; `None` where there is none, or where it has no size.
pub fn size() -> Option<Size> {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { width: size.ws_col, height: size.ws_row })
}

/// The terminal behind standard input in raw mode, for as long as this is kept: also a panic gives the old mode back.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Takes the terminal's keys as they are pressed.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}
