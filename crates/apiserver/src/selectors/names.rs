//! What label keys and label values may look like, and what clients are told when they do not.
//!
//! Upstream: apimachinery/pkg/api/validate/content/{kube,dns}.go

const NAME_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
     used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with a label key (or any qualified name); empty when nothing is.
pub fn label_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            problems.push(format!(
                "a qualified name {NAME_RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            ));
            return problems;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                let of_prefix = subdomain_problems(prefix);
                problems.extend(of_prefix.into_iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        problems.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

/// What is wrong with a label value; empty when nothing is.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        problems.push(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(VALUE_RULE.to_owned());
    }
    problems
}

/// What is wrong with a DNS subdomain; empty when nothing is.
pub fn subdomain_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > SUBDOMAIN_BYTES_MAX {
        problems.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} bytes"));
    }
    if !value.split('.').all(is_dns_label) {
        problems.push(SUBDOMAIN_RULE.to_owned());
    }
    problems
}

fn is_name(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match text.as_bytes() {
        [] => false,
        [first, .., last] if !last.is_ascii_alphanumeric() || !first.is_ascii_alphanumeric() => {
            false
        }
        [only] => only.is_ascii_alphanumeric(),
        all => all.iter().all(inner),
    }
}

fn is_dns_label(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            outer(*first) && outer(*last) && bytes.iter().all(|byte| outer(*byte) || *byte == b'-')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_an_optional_domain_and_a_short_name() {
        let long = "x".repeat(64);
        let good = ["a", "A1", "app.kubernetes.io/name", "a-b_c.d", "1", "x.y/Z"];
        for key in good {
            assert!(label_key_problems(key).is_empty(), "{key}");
        }
        let bad = ["", "-a", "a-", "a/b/c", "/a", "a/", "A.b/c", "a b", "é", ".", "a..b/c"];
        for key in bad.into_iter().chain([long.as_str()]) {
            assert!(!label_key_problems(key).is_empty(), "{key}");
        }
    }

    #[test]
    fn values_may_be_empty_but_not_long_or_ragged() {
        for value in ["", "a", "1.0_x-Y"] {
            assert!(label_value_problems(value).is_empty(), "{value}");
        }
        for value in ["-", "a/b", "a ", "_x", "x_", &"v".repeat(64)] {
            assert!(!label_value_problems(value).is_empty(), "{value}");
        }
    }

    #[test]
    fn the_texts_name_the_part_that_is_wrong() {
        assert_eq!(label_key_problems("/a"), ["prefix part must be non-empty"]);
        assert!(label_key_problems("a/")[0].starts_with("name part must be non-empty"));
        assert!(label_key_problems("a/b/c")[0].starts_with("a qualified name must consist of"));
        assert_eq!(label_value_problems(&"v".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
