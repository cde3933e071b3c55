//! The terminal of this process, as one that hands on every key.
#![expect(unsafe_code, reason = "std has no terminals")]

use std::io;
use std::mem::MaybeUninit;

/// Puts the terminal back as it was.
pub struct Raw {
    former: Option<libc::termios>,
}

impl Raw {
    /// Every key is handed on from here; what is no terminal is left as it is.
    pub fn enter() -> io::Result<Raw> {
        let mut former = MaybeUninit::uninit();
        // SAFETY: the structure is as the call expects it, and is filled if the call answers 0.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, former.as_mut_ptr()) } != 0 {
            return Ok(Raw { former: None });
        }
        // SAFETY: the call has filled it.
        let former = unsafe { former.assume_init() };
        let mut raw = former;
        // SAFETY: the structure is initialized.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        set(&raw)?;
        Ok(Raw { former: Some(former) })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(former) = &self.former {
            let _ = set(former);
        }
    }
}

fn set(terminal: &libc::termios) -> io::Result<()> {
    // SAFETY: the structure is initialized and lives through the call.
    match unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, terminal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
