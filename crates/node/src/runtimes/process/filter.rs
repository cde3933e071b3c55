//! Which calls of the kernel a container with the filter `RuntimeDefault` is refused: those that
//! change the machine, load code into the kernel, or make namespaces.
//!
//! A program in the kernel's own small language, made here from a table. A call that is refused
//! fails with EPERM; `clone3`, whose flags a filter cannot see, with ENOSYS, so that programs take
//! `clone`.

use crate::confinement::Security;

/// Refused, whatever the arguments.
const REFUSED: [libc::c_long; 40] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// Flags of `clone` that make namespaces.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;

/// Where the number, the architecture and the first argument are in what the filter sees.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const FAIL: u32 = 0x0005_0000;
/// Numbers from here on are of another way to call, which nobody needs.
const OTHER_CALLS: u32 = 0x4000_0000;

/// Whether a filter can be made on this machine.
pub fn is_possible() -> bool {
    ARCHITECTURE != 0
}

/// The filter. Who has `SYS_ADMIN` may make mounts and namespaces.
pub fn program(security: &Security) -> Vec<libc::sock_filter> {
    let is_administrator = security.add.iter().any(|name| {
        let name = name.to_ascii_uppercase();
        ["ALL", "SYS_ADMIN", "CAP_SYS_ADMIN"].contains(&name.as_str())
    });
    let fail = |number: libc::c_int| FAIL | number.unsigned_abs();
    let mut program = vec![
        load(ARCH),
        jump(EQUAL, ARCHITECTURE, (1, 0)),
        answer(KILL),
        load(NUMBER),
        jump(AT_LEAST, OTHER_CALLS, (0, 1)),
        answer(fail(libc::EPERM)),
    ];
    let mut refuse = |call: libc::c_long, with: u32| {
        program.push(jump(EQUAL, u32::try_from(call).unwrap_or(u32::MAX), (0, 1)));
        program.push(answer(with));
    };
    refuse(libc::SYS_clone3, fail(libc::ENOSYS));
    if !is_administrator {
        REFUSED.iter().for_each(|call| refuse(*call, fail(libc::EPERM)));
        program.push(jump(EQUAL, u32::try_from(libc::SYS_clone).unwrap_or(u32::MAX), (0, 3)));
        program.push(load(FIRST_ARGUMENT));
        program.push(jump(ANY_BIT, NAMESPACES.cast_unsigned(), (0, 1)));
        program.push(answer(fail(libc::EPERM)));
    }
    program.push(answer(ALLOW));
    program
}

const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;

fn load(offset: u32) -> libc::sock_filter {
    libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset }
}

fn jump(code: u16, with: u32, (if_true, if_false): (u8, u8)) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: if_false, k: with }
}

fn answer(with: u32) -> libc::sock_filter {
    libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: with }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    fn run(program: &[libc::sock_filter], (arch, number, argument): (u32, u32, u32)) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let step = program[at];
            let is_true = match step.code {
                0x06 => return step.k,
                0x20 => {
                    held = match step.k {
                        NUMBER => number,
                        ARCH => arch,
                        _ => argument,
                    };
                    at += 1;
                    continue;
                }
                EQUAL => held == step.k,
                AT_LEAST => held >= step.k,
                _ => held & step.k != 0,
            };
            at += 1 + usize::from(if is_true { step.jt } else { step.jf });
        }
    }

    #[test]
    fn what_changes_the_machine_is_refused_and_the_rest_is_not() {
        let usual = program(&Security::default());
        let answer = |call: libc::c_long, argument: libc::c_int| {
            let call = u32::try_from(call).unwrap();
            run(&usual, (ARCHITECTURE, call, argument.cast_unsigned()))
        };
        let refused = FAIL | libc::EPERM.unsigned_abs();
        assert_eq!(answer(libc::SYS_read, 0), ALLOW);
        assert_eq!(answer(libc::SYS_execve, 0), ALLOW);
        assert_eq!(answer(libc::SYS_mount, 0), refused);
        assert_eq!(answer(libc::SYS_vhangup, 0), refused);
        assert_eq!(answer(libc::SYS_clone, libc::SIGCHLD), ALLOW);
        assert_eq!(answer(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD), refused);
        assert_eq!(answer(libc::SYS_clone3, 0), FAIL | libc::ENOSYS.unsigned_abs());
        assert_eq!(answer(0x4000_0001, 0), refused);
        assert_eq!(run(&usual, (1, 0, 0)), KILL);
        let administrator = Security { add: vec!["SYS_ADMIN".into()], ..Security::default() };
        let mount = u32::try_from(libc::SYS_mount).unwrap();
        assert_eq!(run(&program(&administrator), (ARCHITECTURE, mount, 0)), ALLOW);
    }
}
