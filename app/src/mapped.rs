//! What the kernel has mapped of the program's own file. It maps what lies around each place that
//! is used, and a start uses many places once: most of what an idle program would be said to take
//! is code that nobody needs any more.
#![expect(unsafe_code, reason = "the kernel is told of addresses")]

use std::fs;
use std::path::Path;

/// Has the kernel forget what it mapped of the program so far. What is needed again is mapped
/// again, from memory, as soon as it is.
pub fn give_back() {
    let (Ok(maps), Ok(program)) =
        (fs::read_to_string("/proc/self/maps"), fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    for range in unwritten(&maps, &program) {
        let length = range.end - range.start;
        // SAFETY: nobody ever writes to these pages, so that the file has all that is in them.
        // Where the kernel refuses, everything stays as it was.
        unsafe { libc::madvise(range.start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Where the pages of the program are that are as its file has them: its code, and what it begins
/// with. What is only read in the middle of the file was written to while the program was loaded.
fn unwritten(maps: &str, program: &Path) -> Vec<std::ops::Range<usize>> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
        let path = line.find('/').map(|at| Path::new(line[at..].trim_end()))?;
        let is_unwritten = match rights {
            "r-xp" => true,
            "r--p" => offset.bytes().all(|digit| digit == b'0'),
            _ => false,
        };
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        (path == program && is_unwritten).then_some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5580000000-5580e83000 r--p 00000000 fe:00 7 /opt/set point/setpoint
5580e83000-5583e49000 r-xp 00e82000 fe:00 7 /opt/set point/setpoint
5583e49000-5583fde000 r--p 03e47000 fe:00 7 /opt/set point/setpoint
5583fde000-5583fe6000 rw-p 03fdb000 fe:00 7 /opt/set point/setpoint
7f00000000-7f00010000 r-xp 00000000 fe:00 9 /lib/libc.so.6
7f10000000-7f10010000 rw-p 00000000 00:00 0
";

    #[test]
    fn only_pages_that_nobody_writes_to_are_given_back() {
        let found = unwritten(MAPS, Path::new("/opt/set point/setpoint"));
        assert_eq!(found, [0x55_8000_0000..0x55_80e8_3000, 0x55_80e8_3000..0x55_83e4_9000]);
        assert!(unwritten(MAPS, Path::new("/another")).is_empty());
    }

    #[test]
    fn the_program_goes_on_afterwards() {
        give_back();
        let found = unwritten(
            &fs::read_to_string("/proc/self/maps").expect("it is there"),
            &fs::read_link("/proc/self/exe").expect("it is there"),
        );
        assert!(!found.is_empty());
    }
}
