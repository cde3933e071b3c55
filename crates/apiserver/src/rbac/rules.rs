//! Rules of roles: what they say, and whether they match a request.
//!
//! Upstream: pkg/apis/rbac/v1/evaluation_helpers.go

use std::fmt;

use serde_json::{Map, Value, json};

use super::Attributes;

/// Anything, in every list of a rule.
const ALL: &str = "*";

/// One rule: every verb on every combination of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub api_groups: Vec<Box<str>>,
    /// `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Vec<Box<str>>,
    /// Paths such as `/healthz` or `/api/*`.
    pub urls: Vec<Box<str>>,
    /// Empty means every name.
    pub names: Vec<Box<str>>,
    pub verbs: Vec<Box<str>>,
}

impl Rule {
    /// Reads a rule of a stored role. What is not a list of texts counts as absent: validation has
    /// refused it before, and an authorizer errs on the side of less.
    pub fn from_value(value: &Value) -> Rule {
        Rule {
            api_groups: texts(&value["apiGroups"]),
            resources: texts(&value["resources"]),
            urls: texts(&value["nonResourceURLs"]),
            names: texts(&value["resourceNames"]),
            verbs: texts(&value["verbs"]),
        }
    }

    /// Reads the `rules` of a role.
    pub fn list(rules: &Value) -> Vec<Rule> {
        rules.as_array().into_iter().flatten().map(Rule::from_value).collect()
    }

    pub fn to_value(&self) -> Value {
        let lists = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let mut rule = Map::new();
        for (field, list) in lists {
            if !list.is_empty() {
                rule.insert(field.to_owned(), json!(list));
            }
        }
        rule.insert("verbs".to_owned(), json!(self.verbs));
        Value::Object(rule)
    }

    /// Whether the rule alone lets the request through.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.urls.iter().any(|pattern| url_matches(pattern, path)),
            None => {
                has_or_all(&self.api_groups, attributes.group)
                    && self.resources.iter().any(|pattern| resource_matches(pattern, attributes))
                    && (self.names.is_empty() || has(&self.names, attributes.name))
            }
        }
    }
}

/// As error messages show a rule; the lists in the order and the quotes of upstream.
impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        write!(formatter, "{{{}}}", shown.join(", "))
    }
}

/// `["a" "b"]`.
pub(super) fn quoted<T: AsRef<str>>(list: &[T]) -> String {
    let quoted: Vec<String> = list.iter().map(|one| format!("{:?}", one.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

pub(super) fn has(list: &[Box<str>], one: &str) -> bool {
    list.iter().any(|other| &**other == one)
}

pub(super) fn has_or_all(list: &[Box<str>], one: &str) -> bool {
    list.iter().any(|other| &**other == ALL || &**other == one)
}

/// Whether a path is within a pattern, which may end in a star.
pub(super) fn url_matches(pattern: &str, path: &str) -> bool {
    if pattern == ALL || pattern == path {
        return true;
    }
    pattern.ends_with(ALL) && path.starts_with(pattern.trim_end_matches('*'))
}

fn resource_matches(pattern: &str, attributes: &Attributes<'_>) -> bool {
    if pattern == ALL {
        return true;
    }
    if attributes.subresource.is_empty() {
        return pattern == attributes.resource;
    }
    match pattern.split_once('/') {
        Some((resource, subresource)) => {
            subresource == attributes.subresource
                && (resource == ALL || resource == attributes.resource)
        }
        None => false,
    }
}

fn texts(list: &Value) -> Vec<Box<str>> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_upstream_prints_it() {
        let rule = Rule::from_value(&json!({
            "apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"],
            "resourceNames": ["a"]
        }));
        let text = concat!(
            r#"{APIGroups:[""], Resources:["pods" "pods/log"], ResourceNames:["a"], "#,
            r#"Verbs:["get" "list"]}"#,
        );
        assert_eq!(rule.to_string(), text);
        assert_eq!(Rule::from_value(&rule.to_value()), rule);
        let url = Rule::from_value(&json!({"nonResourceURLs": ["/x"], "verbs": ["get"]}));
        assert_eq!(url.to_string(), r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#);
    }

    #[test]
    fn a_malformed_rule_allows_nothing() {
        let broken = json!({"apiGroups": "*", "resources": {"*": 1}, "verbs": [1, null]});
        assert_eq!(Rule::from_value(&broken), Rule::default());
        assert!(!Rule::default().allows(&Attributes { verb: "get", ..Default::default() }));
    }

    #[test]
    fn urls_match_by_a_star_at_the_end() {
        let cases = [
            ("*", "/x", true),
            ("/api", "/api", true),
            ("/api", "/api/", false),
            ("/api/*", "/api/", true),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/api", false),
            ("/api*", "/apis", true),
            ("/*/x", "/a/x", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(url_matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
