//! Which writes somebody wants to be asked about.
//!
//! Upstream: apiserver/pkg/admission/plugin/policy/matching/matching.go

use serde_json::Value;

use super::rules::Rule;
use crate::selectors::labels::Selector;

/// Whether rules are also about other versions of the same objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    Exact,
    Equivalent,
}

/// What a write is judged by: a webhook's own fields, or those that a policy or its binding names.
#[derive(Debug)]
pub struct Criteria {
    /// None where every write is meant that is not excluded.
    pub rules: Option<Vec<Rule>>,
    pub excluded: Vec<Rule>,
    pub matching: Matching,
    pub namespaces: Selector,
    pub objects: Selector,
    /// A selector that was stored before selectors were checked, and selects everything.
    pub unreadable: Option<&'static str>,
}

impl Criteria {
    /// Those of a webhook; one without rules is never asked.
    pub fn of_webhook(webhook: &Value) -> Criteria {
        Criteria { rules: Some(rules(&webhook["rules"])), ..Criteria::of(webhook) }
    }

    /// Those of a policy or of a binding; without rules they are about everything.
    pub fn of_policy(matched: &Value) -> Criteria {
        let wanted = rules(&matched["resourceRules"]);
        let excluded = rules(&matched["excludeResourceRules"]);
        let rules = (!wanted.is_empty()).then_some(wanted);
        Criteria { rules, excluded, ..Criteria::of(matched) }
    }

    fn of(from: &Value) -> Criteria {
        let mut unreadable = None;
        let mut selector = |field: &'static str| {
            Selector::from_object(Some(&from[field]), field).unwrap_or_else(|_| {
                unreadable = Some(field);
                Selector::everything()
            })
        };
        let (namespaces, objects) = (selector("namespaceSelector"), selector("objectSelector"));
        let matching = match from["matchPolicy"] == "Exact" {
            true => Matching::Exact,
            false => Matching::Equivalent,
        };
        Criteria { rules: None, excluded: Vec::new(), matching, namespaces, objects, unreadable }
    }
}

fn rules(list: &Value) -> Vec<Rule> {
    list.as_array().into_iter().flatten().map(Rule::of).collect()
}
