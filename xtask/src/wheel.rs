//! `cargo xtask wheel DIST DIR`: a wheel of the program that a release has packed, for users who
//! install with pip, with the Python package `setpoint` for training scripts. The same files give
//! the same bytes where SOURCE_DATE_EPOCH is set.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::deb::architecture;
use crate::workspace::check;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SCRIPT: &str = include_str!("wheel.py");
/// Python package that training scripts import.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/setpoint");

/// Writes the wheel into a directory, under the name that pip reads its tags from.
pub fn run(packed: &Path, directory: &Path) -> Result<()> {
    let program = packed.join("setpoint");
    // The C library of Debian 12, which releases are built with.
    let tag = match architecture(&program)? {
        "arm64" => "py3-none-manylinux_2_36_aarch64",
        _ => "py3-none-manylinux_2_36_x86_64",
    };
    fs::create_dir_all(directory)
        .with_context(|| format!("could not make {}", directory.display()))?;
    check(
        Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(&program)
            .args([PACKAGE, VERSION, tag])
            .arg(directory),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Installed by pip itself, without a network; any program of this machine stands in for ours.
    #[test]
    fn pip_installs_the_wheel_and_the_program_runs() {
        let name = format!("setpoint-wheel-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let packed = directory.join("dist");
        fs::create_dir_all(&packed).unwrap();
        fs::copy("/bin/echo", packed.join("setpoint")).unwrap();
        run(&packed, &directory).unwrap();
        let wheels = fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
        let wheels: Vec<_> =
            wheels.filter(|path| path.extension().is_some_and(|it| it == "whl")).collect();
        assert_eq!(wheels.len(), 1, "{wheels:?}");
        let before = fs::read(&wheels[0]).unwrap();
        run(&packed, &directory).unwrap();
        assert_eq!(fs::read(&wheels[0]).unwrap(), before, "the same files give the same bytes");
        let root = directory.join("installed");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--root"]);
        pip.arg(&root).args(["--prefix", "/usr", "--break-system-packages"]).arg(&wheels[0]);
        printed(&mut pip);
        let find = format!("find {} -name setpoint -perm -755 -path '*/bin/*'", root.display());
        let found = printed(Command::new("sh").args(["-c", &find]));
        assert_eq!(printed(Command::new(found.trim()).arg("it runs")), "it runs\n", "{found}");
        let find = format!("find {} -path '*/setpoint/__init__.py'", root.display());
        let module = printed(Command::new("sh").args(["-c", &find]));
        let packages = Path::new(module.trim()).parent().and_then(Path::parent).unwrap();
        // Outside a job nothing happens, whatever is reported.
        let script = "import setpoint; print(setpoint.report(progress=0.5, loss='x', a=None))";
        let mut python = Command::new("python3");
        python.args(["-c", script]).env("PYTHONPATH", packages);
        assert_eq!(printed(&mut python), "None\n");
        fs::remove_dir_all(&directory).unwrap();
    }
}
