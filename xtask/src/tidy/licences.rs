//! Whether every package can be used under a licence that we accept.

use super::Finding;
use super::metadata::{Graph, Origin, Package};

/// Licences that ask for no more than attribution.
pub const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "CC0-1.0",
    "Unlicense",
];

/// Licences that one package alone may carry beside others.
const ALLOWED_FOR: &[(&str, &str)] = &[("aws-lc-sys", "OpenSSL")];

pub fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in graph.packages.values() {
        let (path, advice) = match &package.origin {
            Origin::Ours(manifest) => (manifest.path.as_str(), "add `license.workspace = true`"),
            Origin::Foreign => ("Cargo.lock", "use another package"),
        };
        let problem = match &package.licence {
            None => Some("names no licence".to_owned()),
            Some(text) => match is_satisfied(text, |licence| is_allowed(&package.name, licence)) {
                Some(true) => None,
                Some(false) => Some(format!("has the licence `{text}`, which we do not accept")),
                None => Some(format!("has a licence that we cannot read: `{text}`")),
            },
        };
        if let Some(problem) = problem {
            let Package { name, version, .. } = package;
            let what = format!("`{name} {version}` {problem}: {advice}");
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

fn is_allowed(package: &str, licence: &str) -> bool {
    ALLOWED.contains(&licence) || ALLOWED_FOR.contains(&(package, licence))
}

/// Whether a licence expression (SPDX) can be met with the licences that are allowed; `None` when
/// it is not an expression.
fn is_satisfied(text: &str, is_allowed: impl Fn(&str) -> bool) -> Option<bool> {
    // Before expressions, a slash meant a choice.
    let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_allowed: &is_allowed };
    let result = reader.choice()?;
    reader.words.is_empty().then_some(result)
}

/// Reads an expression from left to right; `WITH` binds closest, then `AND`, then `OR`.
struct Reader<'a> {
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn choice(&mut self) -> Option<bool> {
        let mut result = self.conjunction()?;
        while self.take("OR") {
            // Both sides are read in any case.
            result |= self.conjunction()?;
        }
        Some(result)
    }

    fn conjunction(&mut self) -> Option<bool> {
        let mut result = self.licence()?;
        while self.take("AND") {
            result &= self.licence()?;
        }
        Some(result)
    }

    fn licence(&mut self) -> Option<bool> {
        if self.take("(") {
            let result = self.choice()?;
            return self.take(")").then_some(result);
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Some((self.is_allowed)(&format!("{name} WITH {exception}")));
        }
        Some((self.is_allowed)(name))
    }

    fn name(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", "(", ")"].contains(first) {
            return None;
        }
        self.words = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_when_its_choices_leave_a_way() {
        let cases = [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT OR GPL-3.0", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-2.0 OR MIT AND ISC", Some(true)),
            ("(GPL-2.0 OR MIT) AND LGPL-3.0", Some(false)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", Some(true)),
            ("GPL-2.0 WITH LLVM-exception", Some(false)),
            ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
            ("WITH MIT", None),
        ];
        for (text, expected) in cases {
            assert_eq!(is_satisfied(text, |name| is_allowed("any", name)), expected, "{text}");
        }
    }

    #[test]
    fn a_licence_allowed_for_one_package_is_not_for_another() {
        let found = |name: &str, licence: Option<&str>| {
            let licence = licence.map(str::to_owned);
            let package = Package { name: name.to_owned(), licence, ..Package::default() };
            check(&Graph { packages: [(name.to_owned(), package)].into() }).len()
        };
        let licence = Some("ISC AND (Apache-2.0 OR ISC) AND OpenSSL");
        assert_eq!((found("aws-lc-sys", licence), found("other", licence)), (0, 1));
        assert_eq!((found("a", Some("MIT")), found("a", None)), (0, 1));
    }
}
