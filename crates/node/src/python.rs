//! Python interpreters of the host: finding and inspecting them, and the environment into which
//! `pip install` of a container writes.
//!
//! This environment is a virtual environment below the container's own directory. It sees the
//! packages of the interpreter, so `pip` reuses them, and it is the only place `pip` changes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::runtimes::process::shim;
use crate::runtimes::process::system::is_root;

/// Time in which an interpreter must describe itself.
const INSPECT_MAX: Duration = Duration::from_secs(10);
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// Interpreters whose description is kept.
const KNOWN_MAX: usize = 64;
const NAMES: [&str; 2] = ["python3", "python"];
const CONFIGURATION: &str = "pyvenv.cfg";

/// Prints the fields of an [`Interpreter`], one per line.
const DESCRIBE: &str = "
import site, sys
print('.'.join(map(str, sys.version_info[:3])))
print(sys.executable)
print(sys.base_prefix)
print(sys.prefix if sys.prefix != sys.base_prefix else '')
print(site.getusersitepackages() if site.ENABLE_USER_SITE else '')
";

/// A Python interpreter of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Such as `3.11.2`.
    pub version: String,
    /// Its `sys.executable`.
    pub executable: PathBuf,
    /// Prefix of the installation, outside of any virtual environment.
    base: PathBuf,
    /// Directory of its virtual environment.
    pub environment: Option<PathBuf>,
    /// Packages that the user of the server installed with `pip install --user`.
    user_packages: Option<PathBuf>,
}

/// Returns the interpreter at a path: an executable, or the directory of a virtual environment.
pub fn locate(path: &Path) -> Result<PathBuf, String> {
    let at = path.display();
    if path.is_dir() {
        let found = NAMES.iter().map(|name| path.join("bin").join(name)).find(|it| it.exists());
        return found.ok_or_else(|| {
            format!("{at} is not a virtual environment: bin/python3 does not exist in it")
        });
    }
    match path.exists() {
        true => Ok(path.to_owned()),
        false => Err(format!("{at} does not exist")),
    }
}

/// Returns the first `python3` of a search path.
pub fn search(path: &OsStr) -> Option<PathBuf> {
    let mut candidates = std::env::split_paths(path).map(|directory| directory.join("python3"));
    candidates.find(|candidate| candidate.is_absolute() && candidate.is_file())
}

/// True if a command names a Python interpreter by its path.
pub fn is_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    let version = name.strip_prefix("python");
    program.starts_with('/')
        && version.is_some_and(|it| it.chars().all(|one| one.is_ascii_digit() || one == '.'))
}

/// Returns whether root may run an executable that a pod names: the path may be that of a file that
/// a pod has written. Without root, pods run as the user of this process anyway.
pub fn is_trusted(path: &Path, private: &[PathBuf]) -> bool {
    !is_root() || is_written_by_owner(path, private)
}

/// Returns whether only the user of this process and root can have written a file.
fn is_written_by_owner(path: &Path, private: &[PathBuf]) -> bool {
    let Ok(real) = fs::canonicalize(path) else { return false };
    let is_private = |directory: &PathBuf| {
        fs::canonicalize(directory).is_ok_and(|directory| real.starts_with(directory))
    };
    if private.iter().any(is_private) {
        return false;
    }
    let Ok(own) = fs::metadata("/proc/self").map(|found| found.uid()) else { return false };
    real.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|found| {
            let is_ours = found.uid() == 0 || found.uid() == own;
            // In a directory with the sticky bit others cannot replace a file.
            let is_closed =
                found.mode() & 0o022 == 0 || found.is_dir() && found.mode() & 0o1000 != 0;
            is_ours && is_closed
        })
    })
}

/// Interpreters that were inspected, until their file changes.
#[derive(Debug, Default)]
pub struct Interpreters {
    known: Mutex<BTreeMap<PathBuf, (Stamp, Interpreter)>>,
}

/// Identity of an executable and of what it links to.
type Stamp = [(u64, u64, i64); 2];

fn stamp(path: &Path) -> io::Result<Stamp> {
    let of = |found: fs::Metadata| (found.dev(), found.ino(), found.ctime());
    Ok([of(fs::symlink_metadata(path)?), of(fs::metadata(path)?)])
}

impl Interpreters {
    /// Runs the interpreter to have it describe itself, unless its description is known.
    pub async fn inspect(&self, path: &Path) -> Result<Interpreter, String> {
        let stamp = stamp(path).map_err(|error| format!("{}: {error}", path.display()))?;
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((seen, interpreter)) = known.get(path)
                && *seen == stamp
            {
                return Ok(interpreter.clone());
            }
        }
        let interpreter = inspect(path).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), (stamp, interpreter.clone()));
        Ok(interpreter)
    }
}

async fn inspect(path: &Path) -> Result<Interpreter, String> {
    let at = path.display();
    let mut command = Command::new(path);
    command.args(["-E", "-c", DESCRIBE]).stdin(Stdio::null());
    let ran = tokio::time::timeout(INSPECT_MAX, shim::collect(command, OUTPUT_BYTES_MAX)).await;
    let (code, output) = match ran {
        Err(_) => return Err(format!("{at} did not answer within {} s", INSPECT_MAX.as_secs())),
        Ok(Err(error)) => return Err(format!("could not run {at}: {error}")),
        Ok(Ok(ran)) => ran,
    };
    let output = String::from_utf8_lossy(&output);
    let lines: Vec<&str> = output.lines().collect();
    let path = |line: &str| Some(PathBuf::from(line)).filter(|path| path.is_absolute());
    let described = match lines[..] {
        [version, executable, base, environment, user_packages, ..] if code == 0 => {
            path(executable).zip(path(base)).map(|(executable, base)| Interpreter {
                version: version.to_owned(),
                executable,
                base,
                environment: path(environment),
                user_packages: path(user_packages).filter(|path| path.is_dir()),
            })
        }
        _ => None,
    };
    described.ok_or_else(|| {
        let last = lines.last().copied().unwrap_or("no output");
        format!("{at} is not a Python 3 interpreter: {last}")
    })
}

impl Interpreter {
    /// Directory of its packages below a prefix.
    fn packages(&self, prefix: &Path) -> PathBuf {
        let mut numbers = self.version.split('.');
        let (major, minor) = (numbers.next().unwrap_or("3"), numbers.next().unwrap_or_default());
        prefix.join(format!("lib/python{major}.{minor}/site-packages"))
    }

    /// Packages that it finds outside of its installation.
    fn own_packages(&self) -> Vec<PathBuf> {
        let of_environment = self.environment.iter().map(|prefix| self.packages(prefix));
        of_environment.chain(self.user_packages.clone()).collect()
    }

    /// Directories that it reads: its installation, its virtual environment and the packages of the
    /// user.
    pub fn readable(&self) -> Vec<PathBuf> {
        let base = std::iter::once(self.base.clone());
        let paths = base.chain(self.environment.clone()).chain(self.user_packages.clone());
        paths.filter(|path| path.is_dir()).collect()
    }

    /// Value of `PYTHONPATH` by which every interpreter of this version finds what was installed
    /// into an environment that `make_environment` made.
    pub fn search_path(&self, environment: &Path) -> String {
        let paths = std::iter::once(self.packages(environment)).chain(self.user_packages.clone());
        let paths: Vec<_> = paths.map(|path| path.to_string_lossy().into_owned()).collect();
        paths.join(":")
    }

    /// Directories where programs of the interpreter and of such an environment are, in order.
    pub fn programs(&self, environment: &Path) -> Vec<PathBuf> {
        let own = self.executable.parent().unwrap_or(Path::new("/")).to_owned();
        let added = environment.join("bin");
        let is_found =
            fs::canonicalize(own.join("python3")).ok() == fs::canonicalize(&self.executable).ok();
        // Another version may be called `python3` beside it.
        if is_found { vec![own, added] } else { vec![added, own] }
    }

    /// Makes a virtual environment without running the interpreter.
    pub fn make_environment(&self, directory: &Path) -> io::Result<()> {
        let configuration = self.configuration();
        let file = directory.join(CONFIGURATION);
        if fs::read_to_string(&file).is_ok_and(|text| text == configuration) {
            return Ok(());
        }
        let (packages, programs) = (self.packages(directory), directory.join("bin"));
        fs::create_dir_all(&packages)?;
        fs::create_dir_all(&programs)?;
        link(Path::new("lib"), &directory.join("lib64"))?;
        link(&fs::canonicalize(&self.executable)?, &programs.join("python3"))?;
        link(Path::new("python3"), &programs.join("python"))?;
        let seen = self.own_packages();
        let lines = seen.iter().map(|path| format!("import site; site.addsitedir({path:?})\n"));
        fs::write(packages.join("setpoint-base.pth"), lines.collect::<String>())?;
        let pip = self.environment.as_ref().map(|prefix| prefix.join("pip.conf"));
        if let Some(pip) = pip.filter(|file| file.exists()) {
            link(&pip, &directory.join("pip.conf"))?;
        }
        fs::write(file, configuration)
    }

    fn configuration(&self) -> String {
        let is_wide = match &self.environment {
            None => true,
            Some(prefix) => {
                let text = fs::read_to_string(prefix.join(CONFIGURATION)).unwrap_or_default();
                text.lines().any(|line| {
                    let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
                    pair == Some(("include-system-site-packages", "true"))
                })
            }
        };
        format!(
            "home = {}\ninclude-system-site-packages = {is_wide}\nversion = {}\n",
            self.base.join("bin").display(),
            self.version
        )
    }
}

/// Makes a symbolic link, in place of one that is there.
fn link(target: &Path, at: &Path) -> io::Result<()> {
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(target, at),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let name = format!("setpoint-python-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn run(program: &Path, arguments: &[&str], environment: &[(&str, &Path)]) -> String {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap();
        command.args(arguments).env_clear().env("PATH", path).envs(environment.iter().copied());
        let ran = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
        text(&ran.stdout).trim().to_owned()
    }

    #[test]
    fn a_missing_interpreter_and_an_empty_directory_are_named() {
        let directory = directory("missing");
        let gone = directory.join("venv");
        assert_eq!(locate(&gone), Err(format!("{} does not exist", gone.display())));
        let refused = locate(&directory).unwrap_err();
        assert!(refused.ends_with("bin/python3 does not exist in it"), "{refused}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn commands_that_name_an_interpreter_by_its_path_are_recognised() {
        for program in ["/usr/bin/python3", "/v/bin/python", "/usr/bin/python3.12"] {
            assert!(is_interpreter(program), "{program}");
        }
        for program in ["python3", "/usr/bin/pythonic", "/usr/bin/torchrun", "/bin/sh", ""] {
            assert!(!is_interpreter(program), "{program}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_no_interpreter_is_refused_with_its_output() {
        let refused = Interpreters::default().inspect(Path::new("/bin/echo")).await.unwrap_err();
        assert!(refused.starts_with("/bin/echo is not a Python 3 interpreter"), "{refused}");
        let refused = Interpreters::default().inspect(Path::new("/no/python3")).await.unwrap_err();
        assert!(refused.contains("No such file"), "{refused}");
    }

    /// Writes a wheel with one module, which needs neither an index nor a build.
    const MAKE_WHEEL: &str = r"
import sys, zipfile
name = sys.argv[2]
info = name + '-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr(name + '.py', 'origin = __file__')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n' % name)
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'RECORD', '')
";

    #[tokio::test]
    async fn pip_of_a_virtual_environment_installs_beside_it_and_both_interpreters_import_it() {
        let directory = directory("pip");
        let venv = directory.join("venv");
        let python = search(&std::env::var_os("PATH").unwrap()).expect("tests need python3");
        run(&python, &["-m", "venv", venv.to_str().unwrap()], &[]);
        let interpreters = Interpreters::default();
        let found = locate(&venv).unwrap();
        let interpreter = interpreters.inspect(&found).await.unwrap();
        assert_eq!(interpreter.executable, venv.join("bin/python3"));
        assert_eq!(interpreter.environment.as_deref(), Some(&*venv));
        assert_eq!(interpreters.inspect(&found).await.as_ref(), Ok(&interpreter));
        let module = interpreter.packages(&venv).join("in_base.py");
        fs::write(&module, "origin = __file__\n").unwrap();
        let before = fs::read_dir(interpreter.packages(&venv)).unwrap().count();
        let own = directory.join("own");
        interpreter.make_environment(&own).unwrap();
        interpreter.make_environment(&own).unwrap();
        let search = PathBuf::from(interpreter.search_path(&own));
        let environment = [("PIP_PYTHON", &*own), ("PYTHONPATH", &*search), ("HOME", &*directory)];
        let wheel = directory.join("in_own-1.0-py3-none-any.whl");
        let wheel = wheel.to_str().unwrap();
        run(&python, &["-c", MAKE_WHEEL, wheel, "in_own"], &[]);
        run(&found, &["-m", "pip", "install", "--no-index", wheel], &environment);
        let print = ["-c", "import in_base, in_own; print(in_base.origin, in_own.origin)"];
        let expected = format!(
            "{} {}",
            module.display(),
            interpreter.packages(&own).join("in_own.py").display()
        );
        for python in [&found, &own.join("bin/python")] {
            assert_eq!(run(python, &print, &environment), expected);
        }
        // `print` of the base wrote its byte code, and nothing else changed there.
        let _ = fs::remove_dir_all(interpreter.packages(&venv).join("__pycache__"));
        assert_eq!(fs::read_dir(interpreter.packages(&venv)).unwrap().count(), before);
        fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn an_interpreter_that_is_not_called_python3_comes_first_by_that_name() {
        let directory = directory("named");
        let python = search(&std::env::var_os("PATH").unwrap()).expect("tests need python3");
        let interpreter = Interpreters::default().inspect(&python).await.unwrap();
        let programs = interpreter.programs(&directory);
        assert_eq!(programs[0], interpreter.executable.parent().unwrap());
        let other = directory.join("python3.99");
        symlink(&interpreter.executable, &other).unwrap();
        let other = Interpreter { executable: other, ..interpreter };
        assert_eq!(other.programs(&directory), [directory.join("bin"), directory.clone()]);
        other.make_environment(&directory).unwrap();
        let version = "import sys; print('.'.join(map(str, sys.version_info[:3])))";
        assert_eq!(run(&directory.join("bin/python3"), &["-c", version], &[]), other.version);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_interpreter_that_others_can_write_is_not_run() {
        let directory = crate::runtimes::process::tests::directory("trusted");
        let (open, closed) = (directory.0.join("open"), directory.0.join("closed"));
        for place in [&open, &closed] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("python3"), "").unwrap();
            fs::set_permissions(place.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(is_written_by_owner(&closed.join("python3"), &[]));
        assert!(!is_written_by_owner(&closed.join("python3"), std::slice::from_ref(&directory.0)));
        assert!(!is_written_by_owner(&closed.join("missing"), &[]));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_written_by_owner(&open.join("python3"), &[]));
        // As a link from elsewhere.
        std::os::unix::fs::symlink(open.join("python3"), closed.join("link")).unwrap();
        assert!(!is_written_by_owner(&closed.join("link"), &[]));
        fs::set_permissions(closed.join("python3"), fs::Permissions::from_mode(0o775)).unwrap();
        assert!(!is_written_by_owner(&closed.join("python3"), &[]));
    }
}
