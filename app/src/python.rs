//! The Python of pods that run as processes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use node::pod::host_environment::{HostEnvironment, PATH};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::server::Plan;

/// Ways to choose another interpreter, for messages.
pub const HINT: &str = "`setpoint up --python PATH`, or `python: PATH` in the configuration";

/// The interpreter that was chosen when the server started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    pub executable: PathBuf,
    /// True if the user named it; otherwise it is the first on the server's PATH.
    pub configured: bool,
}

impl Python {
    /// Applies the rule: the option, then the configuration, then the server's PATH.
    pub fn choose(option: Option<&Path>, config: &Config) -> Result<Option<Python>> {
        let named = option.or(config.pods.python.as_deref());
        let Some(named) = named else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
            let found = node::python::search(&path);
            return Ok(found.map(|executable| Python { executable, configured: false }));
        };
        let absolute = std::path::absolute(named)?;
        let executable = node::python::locate(&absolute).map_err(|why| {
            anyhow!("python: {why}; name an interpreter or a virtual environment that exists")
        })?;
        Ok(Some(Python { executable, configured: true }))
    }
}

impl fmt::Display for Python {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = if self.configured { "configured" } else { "first on the server's PATH" };
        write!(formatter, "{}   ({origin})", self.executable.display())
    }
}

/// Settings of pods that run as processes.
pub fn environment(plan: &Plan) -> Arc<HostEnvironment> {
    Arc::new(HostEnvironment {
        python: plan.components.python.as_ref().map(|python| python.executable.clone()),
        variables: plan.loaded.config.pods.variables(),
        ..HostEnvironment::default()
    })
}

/// Describes the Python of pods, or that there is none.
pub fn describe(python: Option<&Python>) -> String {
    match python {
        Some(python) => python.to_string(),
        None => format!("none: no python3 on the server's PATH; choose one with {HINT}"),
    }
}

/// Returns what to do about a module that a program did not find, if that is why it failed.
pub fn import_hint<'a>(
    mut lines: impl DoubleEndedIterator<Item = &'a str>,
    executable: Option<&str>,
) -> Option<String> {
    let is_import = |line: &&str| {
        let line = line.rsplit("] ").next().unwrap_or(line);
        line.starts_with("ModuleNotFoundError: ") || line.starts_with("ImportError: ")
    };
    lines.rfind(is_import)?;
    let python = executable.unwrap_or("the first python3 on the server's PATH");
    Some(format!(
        "the job ran with {python}; install the module there, or choose another Python with {HINT}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_virtual_environment_is_named_with_what_to_do() {
        let gone = Path::new("/no/such/venv");
        let refused = Python::choose(Some(gone), &Config::default()).expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "python: /no/such/venv does not exist; name an interpreter or a virtual environment \
             that exists"
        );
        let mut config = Config::default();
        config.pods.python = Some(gone.to_owned());
        assert!(Python::choose(None, &config).is_err());
    }

    #[test]
    fn a_missing_module_is_explained_with_the_interpreter() {
        let lines = ["Traceback:", "ModuleNotFoundError: No module named 'torch'", "exit"];
        let hint = import_hint(lines.into_iter(), Some("/v/bin/python3")).expect("a hint");
        assert!(hint.starts_with("the job ran with /v/bin/python3; ") && hint.contains(HINT));
        let ranked = ["[rank 1] ImportError: cannot import name 'x'"];
        assert!(import_hint(ranked.into_iter(), None).is_some());
        assert_eq!(import_hint(["ValueError: ImportError: no"].into_iter(), None), None);
        assert!(describe(None).starts_with("none: no python3"));
    }
}
