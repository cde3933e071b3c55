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
    // One that is not named any more goes, also where others beside it stay.
    write(path, &payload(&[("a", "1"), ("deep/b", "2"), ("deep/c", "2")]), None).unwrap();
    write(path, &payload(&[("a", "1"), ("deep/b", "2")]), None).unwrap();
    assert!(path.join("deep/b").exists() && !path.join("deep/c").exists());
    let first = fs::read_link(path.join("..data")).unwrap();
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
    // As open as the volume, whatever the mask of this process is.
    fs::set_permissions(&volume, fs::Permissions::from_mode(0o777)).unwrap();
    make("open/below").unwrap();
    for place in ["open", "open/below"] {
        let mode = fs::metadata(volume.join(place)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777, "{place}");
    }
    // What is no directory is not waited for.
    let pipe = directory.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(below::prepare(&pipe, "part", Missing::Make).is_err());
    assert!(below::prepare(&volume, "missing", Missing::Refuse).is_err());
    assert!(!volume.join("missing").exists());
}

/// What is there, the type that is said, and why it is not so.
#[test]
fn a_path_of_the_host_is_what_it_is_said_to_be() {
    let directory = Directory::new("host");
    let at = |name: &str| directory.0.join(name).display().to_string();
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (name, kind, wrong) in [
        ("directory", "", ""),
        ("directory", "Directory", ""),
        ("file", "File", ""),
        ("socket", "Socket", ""),
        ("file", "Directory", "directory"),
        ("directory", "File", "file"),
        ("none", "Directory", "directory"),
        ("none", "File", "file"),
        ("file", "Socket", "socket file"),
        ("file", "CharDevice", "character device"),
        ("file", "BlockDevice", "block device"),
        ("file", "DirectoryOrCreate", "directory"),
        ("directory", "FileOrCreate", "file"),
        ("made", "DirectoryOrCreate", ""),
        ("made-file", "FileOrCreate", ""),
        ("unsaid", "", ""),
    ] {
        let volume = serde_json::json!({"path": at(name), "type": kind});
        let told = host_path::check(&volume).map_or_else(|why| why, |_| String::new());
        let expected = match wrong {
            "" => String::new(),
            what => format!("hostPath type check failed: {} is not a {what}", at(name)),
        };
        assert_eq!(told, expected, "{name} {kind}");
    }
    let device = serde_json::json!({"path": "/dev/null", "type": "CharDevice"});
    assert!(host_path::check(&device).is_ok());
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("made"), mode("made-file")), (0o755, 0o644));
}

#[test]
fn a_volume_is_given_to_the_group_whole_or_not_at_all() {
    use std::os::unix::fs::MetadataExt;
    let directory = Directory::new("group");
    let inner = directory.0.join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("file"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", inner.join("link")).unwrap();
    let set =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let group = Some(fs::metadata(&inner).unwrap().gid());
    let owner = |policy| Owner { group, user: None, policy };
    set(&inner.join("file"), 0o600);
    set(&inner, 0o700);
    set(&directory.0, 0o700);
    owner(owner::Policy::OnRootMismatch).take(&directory.0).unwrap();
    let modes = || [mode(&directory.0), mode(&inner), mode(&inner.join("file"))];
    assert_eq!(modes(), [0o2770, 0o2770, 0o660]);
    // The root fits, so that what is in it is not looked at again.
    set(&inner.join("file"), 0o600);
    owner(owner::Policy::OnRootMismatch).take(&directory.0).unwrap();
    assert_eq!(mode(&inner.join("file")), 0o600);
    owner(owner::Policy::Always).take(&directory.0).unwrap();
    assert_eq!(mode(&inner.join("file")), 0o660);
    assert_eq!(mode(Path::new("/etc/passwd")), 0o644);
}

#[test]
fn a_token_is_replaced_after_four_fifths_of_its_life_or_a_day() {
    for (seconds, due) in [(3607, 2885), (600, 480), (7 * 86_400, 86_400)] {
        assert_eq!(payload::due_after(seconds), due);
    }
}

#[test]
fn memory_is_bounded_by_the_volume_the_pod_and_the_node() {
    let pod = |limit: Option<&str>| {
        let mut pod = serde_json::json!({"spec": {"containers": [{"name": "a"}]}});
        if let Some(limit) = limit {
            pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = limit.into();
        }
        Object::new(pod)
    };
    let capacity = serde_json::json!({"memory": "1Gi"});
    for (limit, size, expected) in [
        (None, None, 1 << 30),
        (None, Some("1Mi"), 1 << 20),
        (Some("512Ki"), Some("1Mi"), 512 << 10),
        (Some("4Gi"), Some("0"), 1 << 30),
    ] {
        let volume = serde_json::json!({"sizeLimit": size});
        assert_eq!(memory_size(&pod(limit), &volume, &capacity), Some(expected));
    }
}

#[test]
fn what_is_in_a_bounded_volume_is_counted() {
    let directory = Directory::new("usage");
    let volume = directory.0.join("empty-dir/v/deep");
    fs::create_dir_all(&volume).unwrap();
    let pod = |limit: &str| {
        Object::new(serde_json::json!({"spec": {"volumes": [{"name": "v",
            "emptyDir": {"sizeLimit": limit}}, {"name": "w", "emptyDir": {}}]}}))
    };
    fs::write(volume.join("file"), vec![1; 200_000]).unwrap();
    assert_eq!(usage::exceeded(&pod("1Mi"), &directory.0), None);
    let told = usage::exceeded(&pod("100Ki"), &directory.0);
    let expected = "Usage of EmptyDir volume \"v\" exceeds the limit \"100Ki\". ";
    assert_eq!(told.as_deref(), Some(expected));
    assert!(usage::is_bounded(&pod("1Mi")) && !usage::is_bounded(&pod("0")));
}

/// Runs itself as an ordinary user if it was started as root.
#[test]
fn a_group_that_only_root_may_give_is_left_out() {
    if crate::runtimes::process::system::is_root() {
        let name = "volumes::tests::a_group_that_only_root_may_give_is_left_out";
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(std::env::current_exe().unwrap()).args(["--exact", name]);
        let ran = command.output().unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && output.contains("1 passed"), "{ran:?}");
        return;
    }
    let directory = Directory::new("ordinary");
    let file = directory.0.join("file");
    fs::write(&file, "").unwrap();
    let owner = Owner { group: Some(4711), ..Owner::default() };
    assert_eq!(owner.take(&directory.0).unwrap(), Applied::Refused);
    owner::give_file(&file, (Some(0), Some(4711))).unwrap();
    let missing = owner.take(&directory.0.join("missing")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let warning = fs_group_warning(4711, &["data".to_owned(), "shm".to_owned()]);
    assert!(warning.starts_with("fsGroup 4711 was not applied to volumes data, shm: "));
}
