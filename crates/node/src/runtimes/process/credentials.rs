//! Who a program is and what it may do, taken on between fork and exec.
#![expect(unsafe_code, reason = "std knows neither capabilities nor filters of calls")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::capabilities::{self, Set};
use super::filter;
use super::record::Asked;
use super::system::check;
use crate::confinement::{Filter, Security};

/// What `take` does.
struct Credentials {
    user: Option<u32>,
    group: Option<u32>,
    groups: Vec<u32>,
    /// A user namespace of an ordinary user refuses supplementary groups.
    can_set_groups: bool,
    /// What is kept of what we may do; `None` where we have nothing to give up.
    keep: Option<Set>,
    no_new_privileges: bool,
    filter: Vec<libc::sock_filter>,
}

/// The program becomes who its container says. To be said last.
pub fn take(command: &mut Command, asked: &Asked) -> io::Result<()> {
    let (spec, security) = (&asked.spec, &asked.spec.security);
    // In a user namespace of its own, where the ids of the host mean nothing.
    let root = asked.ids.map(|_| 0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = capabilities::effective(&status);
    let wanted = capabilities::of(security).map_err(io::Error::other)?;
    let has_any = capabilities::has(held, capabilities::SETPCAP);
    // SAFETY: the calls have no arguments and cannot fail.
    let (own_user, own_group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let user = spec.user.or(root).filter(|user| *user != own_user || has_any);
    // Who says who he is, but not his group, has the group of root.
    let group = spec.group.or(user.map(|_| 0)).filter(|group| *group != own_group || has_any);
    let credentials = Credentials {
        user,
        group,
        groups: security.groups.clone(),
        can_set_groups: has_any && !denies_groups(),
        keep: has_any.then_some(wanted & held),
        no_new_privileges: security.no_new_privileges || !has_any && is_filtered(security),
        filter: program(security)?,
    };
    let before = move || credentials.take();
    // SAFETY: the closure allocates nothing.
    unsafe { command.pre_exec(before) };
    Ok(())
}

/// Returns whether the user namespace of this process refuses to set groups.
fn denies_groups() -> bool {
    let text = std::fs::read_to_string("/proc/self/setgroups").unwrap_or_default();
    text.trim() == "deny"
}

fn is_filtered(security: &Security) -> bool {
    security.filter != Filter::Unconfined && !security.privileged
}

fn program(security: &Security) -> io::Result<Vec<libc::sock_filter>> {
    match &security.filter {
        _ if !is_filtered(security) => Ok(Vec::new()),
        Filter::RuntimeDefault if filter::is_possible() => Ok(filter::program(security)),
        Filter::Unconfined | Filter::RuntimeDefault => Ok(Vec::new()),
        Filter::Localhost(file) => Err(io::Error::other(format!(
            "the process runtime reads no seccomp profiles (localhost/{file}); it has \
             RuntimeDefault and Unconfined"
        ))),
    }
}

impl Credentials {
    /// Runs between fork and exec: it must not allocate.
    fn take(&self) -> io::Result<()> {
        if self.no_new_privileges {
            // SAFETY: the call takes numbers only.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        }
        // Whoever gives up his privileges may not install a filter afterwards.
        self.install_filter()?;
        if let Some(keep) = self.keep {
            for number in (0..64).filter(|number| !capabilities::has(keep, *number)) {
                // SAFETY: the call takes numbers only. It fails for numbers there are none for.
                unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
            }
        }
        self.change_user()?;
        // SAFETY: the call has no arguments and cannot fail.
        let is_root = unsafe { libc::geteuid() == 0 };
        match self.keep {
            Some(keep) if is_root => set_capabilities(keep),
            _ => Ok(()),
        }
    }

    fn change_user(&self) -> io::Result<()> {
        // SAFETY: the calls take numbers and a list that lives through them.
        unsafe {
            if self.group.is_some() || !self.groups.is_empty() {
                let result = libc::setgroups(self.groups.len(), self.groups.as_ptr());
                if self.can_set_groups {
                    check(result)?;
                }
            }
            if let Some(group) = self.group {
                check(libc::setgid(group))?;
            }
            match self.user {
                Some(user) => check(libc::setuid(user)),
                None => Ok(()),
            }
        }
    }

    fn install_filter(&self) -> io::Result<()> {
        if self.filter.is_empty() {
            return Ok(());
        }
        let program = libc::sock_fprog {
            len: u16::try_from(self.filter.len()).unwrap_or(0),
            filter: self.filter.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the program, which lives through the call.
        check(unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        })
    }
}

/// `capset(2)`: permitted and effective alike, nothing handed on to other programs.
fn set_capabilities(keep: Set) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the set")]
    let half = |bits: Set| Data { effective: bits as u32, permitted: bits as u32, inheritable: 0 };
    let data = [half(keep & 0xffff_ffff), half(keep >> 32)];
    // SAFETY: both live through the call and have the form that the version says.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    check(i32::try_from(result).unwrap_or(-1))
}
