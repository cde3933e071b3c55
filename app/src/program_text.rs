//! The program's own text in memory. A start runs through much of it that nobody needs again; what
//! is needed comes back from the cache of files at the first use.

use std::fs;
use std::ops::Range;

/// Gives back what is mapped of the text. Nothing is lost: it is never written.
#[expect(unsafe_code, reason = "std gives no memory back")]
pub fn give_back() {
    let Ok(mappings) = fs::read_to_string("/proc/self/maps") else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let program = program.to_string_lossy();
    for range in mappings.lines().filter_map(|line| text_of(line, &program)) {
        // SAFETY: the range is mapped from a file, can be run and cannot be written, so that its
        // pages are the file's, and are read again when they are touched.
        unsafe {
            libc::madvise(
                std::ptr::without_provenance_mut(range.start),
                range.len(),
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// The addresses of a mapping of the program that can be run and not written.
fn text_of(line: &str, program: &str) -> Option<Range<usize>> {
    let mut words = line.split_whitespace();
    let (addresses, rights) = (words.next()?, words.next()?);
    if rights != "r-xp" || words.nth(3)? != program {
        return None;
    }
    let (from, to) = addresses.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    Some(number(from)?..number(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_text_is_meant() {
        let of = |line: &str| text_of(line, "/bin/setpoint");
        assert_eq!(of("1000-3000 r-xp 00001000 fd:00 5   /bin/setpoint"), Some(0x1000..0x3000));
        for line in [
            "1000-3000 r--p 00001000 fd:00 5   /bin/setpoint",
            "1000-3000 rw-p 00001000 fd:00 5   /bin/setpoint",
            "1000-3000 r-xp 00001000 fd:00 5   /lib/libc.so.6",
            "1000-3000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn the_program_runs_on_without_it() {
        give_back();
        assert_eq!(text_of("", ""), None);
    }
}
