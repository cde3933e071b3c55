//! The program that holds what the containers of a pod share where an engine runs them. It is a few
//! instructions that wait for ever and let orphans go, written out by us: nothing is pulled.

/// The name of the image that has it. It is made on the machine, and no registry is asked for it.
pub const IMAGE: &str = "setpoint/pause:1";
/// Where it is in the image.
pub const PATH: &str = "/pause";

const ELF_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const ADDRESS: u64 = 0x0040_0000;
const TAR_BLOCK: usize = 512;

/// The program, for the architecture of this machine; `None` where nobody wrote one.
pub fn program() -> Option<Vec<u8>> {
    let (machine, code) = match std::env::consts::ARCH {
        "x86_64" => (62_u16, x86_64()),
        "aarch64" => (183, aarch64()),
        _ => return None,
    };
    let start = ELF_HEADER_BYTES + PROGRAM_HEADER_BYTES;
    let size = (start + code.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(2_u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend((ADDRESS + start as u64).to_le_bytes());
    file.extend((ELF_HEADER_BYTES as u64).to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // One piece, to be read and run.
    file.extend(1_u32.to_le_bytes());
    file.extend(5_u32.to_le_bytes());
    for word in [0, ADDRESS, ADDRESS, size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    Some(file)
}

/// Children that nobody waits for go by themselves when their signal is ignored; then it waits.
fn x86_64() -> Vec<u8> {
    let mut code = vec![0xb8, 13, 0, 0, 0]; // mov eax, rt_sigaction
    code.extend([0xbf, 17, 0, 0, 0]); // mov edi, SIGCHLD
    code.extend([0x48, 0x8d, 0x35, 19, 0, 0, 0]); // lea rsi, [rip + 19]
    code.extend([0x31, 0xd2]); // xor edx, edx
    code.extend([0x41, 0xba, 8, 0, 0, 0]); // mov r10d, 8
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xb8, 34, 0, 0, 0]); // mov eax, pause
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xeb, 0xf7]); // jmp to pause
    code.extend(ignore());
    code
}

fn aarch64() -> Vec<u8> {
    let set = |register: u32, value: u32| 0xd280_0000 | (value << 5) | register;
    let call = 0xd400_0001_u32;
    let mut words = vec![set(8, 134), set(0, 17), 0, set(2, 0), set(3, 8), call];
    let wait = [set(0, 0), set(1, 0), set(2, 0), set(3, 0), set(4, 0), set(8, 73), call];
    words.extend(wait);
    // Back to the first of those that wait.
    words.push(0x1400_0000 | (0x03ff_ffff & 7_u32.wrapping_neg()));
    // The action follows the instructions: so many bytes after the one that takes its address.
    let ahead = (words.len() - 2) as u32;
    words[2] = 0x1000_0001 | (ahead << 5);
    let mut code: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    code.extend(ignore());
    code
}

/// What says to the kernel that a signal is ignored.
fn ignore() -> Vec<u8> {
    [1_u64, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect()
}

/// The root of an image that has nothing but the program.
pub fn root() -> Option<Vec<u8>> {
    let program = program()?;
    let mut archive = tar_header(PATH.trim_start_matches('/'), program.len());
    archive.extend(&program);
    archive.resize(archive.len().next_multiple_of(TAR_BLOCK) + 2 * TAR_BLOCK, 0);
    Some(archive)
}

fn tar_header(name: &str, size: usize) -> Vec<u8> {
    let mut header = vec![0; TAR_BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000755\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_program_waits_until_it_is_killed() {
        let Some(program) = program() else { return };
        let path = std::env::temp_dir().join(format!("setpoint-pause-{}", std::process::id()));
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = std::process::Command::new(&path).spawn().unwrap();
        let ignored = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 16) != 0
        };
        while !ignored(child.id()) {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_archive_is_one_file() {
        let Some(archive) = root() else { return };
        assert_eq!(archive.len() % TAR_BLOCK, 0);
        assert!(archive.starts_with(b"pause\0"));
        assert_eq!(&archive[257..262], b"ustar");
    }
}
