//! Files that are replaced at once, and places that links cannot leave.

use super::files::{Content, Payload, write};
use super::*;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("setpoint-volume-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |(path, text): &(&str, &str)| {
        ((*path).to_owned(), Content::new(text.as_bytes().to_vec(), 0o600))
    };
    files.iter().map(file).collect()
}

#[test]
fn files_are_replaced_together_and_those_not_named_go() {
    let directory = Directory::new("files");
    let path = &directory.0;
    write(path, &payload(&[("a", "1"), ("deep/b", "2")]), None).unwrap();
    let first = fs::read_link(path.join("..data")).unwrap();
    assert_eq!(fs::read_to_string(path.join("deep/b")).unwrap(), "2");
    write(path, &payload(&[("a", "1"), ("deep/b", "2")]), None).unwrap();
    assert_eq!(fs::read_link(path.join("..data")).unwrap(), first);
    write(path, &payload(&[("a", "3")]), None).unwrap();
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "3");
    assert!(!path.join("deep").exists() && !path.join(first).exists());
    let mode = fs::metadata(path.join("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn no_file_is_written_outside_of_its_volume() {
    let directory = Directory::new("outside");
    for path in ["../a", "/a", "a/../../b", "..data", ""] {
        assert!(write(&directory.0, &payload(&[(path, "x")]), None).is_err(), "{path}");
    }
}

#[test]
fn a_part_of_a_volume_cannot_lead_out_of_it() {
    let directory = Directory::new("parts");
    let volume = directory.0.join("volume");
    fs::create_dir_all(&volume).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    std::os::unix::fs::symlink("made", volume.join("inside")).unwrap();
    let make = |part: &str| below::prepare(&volume, part, Missing::Make);
    assert_eq!(make("./made/below").unwrap(), Path::new("made/below"));
    assert!(volume.join("made/below").is_dir());
    assert_eq!(make("inside/below").unwrap(), Path::new("inside/below"));
    for part in ["../x", "/etc", "out", "out/made", "made/../../x"] {
        assert!(make(part).is_err(), "{part}");
    }
    assert!(!Path::new("/etc/made").exists());
    assert!(below::prepare(&volume, "missing", Missing::Refuse).is_err());
    assert!(!volume.join("missing").exists());
}
