//! Whether some rules grant everything that others do.
//!
//! Every rule that is wanted is taken apart into single grants, and one rule that is held must
//! cover each of them whole: two rules never cover a grant together. That refuses a few roles
//! that a cleverer comparison would let pass, and can be explained.
//!
//! Upstream: component-helpers/auth/rbac/validation/policy_comparator.go, policy_compact.go

use super::rules::{Rule, has, has_or_all, url_matches};

/// Answers with the grants that nothing held covers.
pub fn covers(have: &[Rule], want: &[Rule]) -> Result<(), Vec<Rule>> {
    let missing: Vec<Rule> = want
        .iter()
        .flat_map(take_apart)
        .filter(|grant| !have.iter().any(|rule| rule_covers(rule, grant)))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// Joins single grants that differ only by their verb, for a shorter message.
pub fn compact(rules: &[Rule]) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Rule| {
            is_simple(other)
                && other.api_groups == rule.api_groups
                && other.resources == rule.resources
                && other.names == rule.names
        };
        match joined.iter_mut().find(same).filter(|_| is_simple(rule)) {
            Some(other) => other.verbs.extend(rule.verbs.iter().cloned()),
            None => joined.push(rule.clone()),
        }
    }
    joined
}

fn is_simple(rule: &Rule) -> bool {
    rule.api_groups.len() == 1
        && rule.resources.len() == 1
        && rule.names.len() <= 1
        && rule.urls.is_empty()
}

/// One rule for each group, resource, verb and name, and for each path and verb.
fn take_apart(rule: &Rule) -> Vec<Rule> {
    let names: Vec<Vec<Box<str>>> = match &rule.names[..] {
        [] => vec![Vec::new()],
        names => names.iter().map(|name| vec![name.clone()]).collect(),
    };
    let mut grants = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                grants.extend(names.iter().map(|names| Rule {
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    verbs: vec![verb.clone()],
                    names: names.clone(),
                    urls: Vec::new(),
                }));
            }
        }
    }
    for url in &rule.urls {
        for verb in &rule.verbs {
            let (urls, verbs) = (vec![url.clone()], vec![verb.clone()]);
            grants.push(Rule { urls, verbs, ..Rule::default() });
        }
    }
    grants
}

fn rule_covers(rule: &Rule, grant: &Rule) -> bool {
    let names = match &grant.names[..] {
        [] => rule.names.is_empty(),
        names => rule.names.is_empty() || names.iter().all(|name| has(&rule.names, name)),
    };
    names
        && grant.verbs.iter().all(|verb| has_or_all(&rule.verbs, verb))
        && grant.api_groups.iter().all(|group| has_or_all(&rule.api_groups, group))
        && grant.resources.iter().all(|resource| resource_covers(&rule.resources, resource))
        && grant.urls.iter().all(|url| rule.urls.iter().any(|pattern| url_matches(pattern, url)))
}

fn resource_covers(resources: &[Box<str>], wanted: &str) -> bool {
    if has_or_all(resources, wanted) {
        return true;
    }
    match wanted.split_once('/') {
        Some((_, subresource)) => has(resources, &format!("*/{subresource}")),
        None => false,
    }
}
