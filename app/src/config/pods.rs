//! Settings of pods that run as processes of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::section::Section;

/// `python` and `pod_environment`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pods {
    /// An interpreter, or the directory of a virtual environment.
    pub python: Option<PathBuf>,
    /// Variables of every pod; `None` passes on the value that the server has.
    pub environment: BTreeMap<String, Option<String>>,
}

impl Pods {
    pub fn read(root: &mut Section<'_>) -> Result<Pods> {
        let python = root.path("python")?;
        let environment = root.section("pod_environment")?;
        let environment = environment.variables("the name of an environment variable", is_name)?;
        Ok(Pods { python, environment })
    }

    /// Resolves the variables of pods against those of this process.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.resolve(|name| std::env::var(name).ok())
    }

    fn resolve(&self, own: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        let mut resolved = BTreeMap::new();
        for (name, value) in &self.environment {
            match value.clone().or_else(|| own(name)) {
                Some(value) => drop(resolved.insert(name.clone(), value)),
                None => tracing::warn!(name, "pod_environment names a variable that is not set"),
            }
        }
        resolved
    }
}

/// True if a text can be the name of an environment variable.
pub fn is_name(text: &str) -> bool {
    let is_letter = |one: char| one.is_ascii_alphabetic() || one == '_';
    text.starts_with(is_letter) && text.chars().all(|it| is_letter(it) || it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_without_a_value_has_that_of_the_server() {
        let environment = [("A", Some("1")), ("B", None), ("C", None), ("D", Some(""))];
        let pair = |(name, value): (&str, Option<&str>)| (name.into(), value.map(str::to_owned));
        let environment = environment.into_iter().map(pair).collect();
        let pods = Pods { python: None, environment };
        let own = |name: &str| (name == "B").then(|| "2".to_owned());
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let expected = [("A", "1"), ("B", "2"), ("D", "")].map(pair);
        assert_eq!(pods.resolve(own), BTreeMap::from(expected));
    }

    #[test]
    fn names_of_variables_have_letters_digits_and_underscores() {
        assert!(is_name("HF_TOKEN") && is_name("_a1"));
        assert!(!is_name("") && !is_name("1A") && !is_name("A=B") && !is_name("A-B"));
    }
}
