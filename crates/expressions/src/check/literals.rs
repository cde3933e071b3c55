//! Constants that can be judged before evaluation: patterns, durations, timestamps.

use crate::check::Checker;
use crate::library::{patterns, times};
use crate::syntax::{Kind, Literal, Node};

impl Checker<'_> {
    /// A constant that can never be right is a fault of the expression.
    pub(super) fn literal_arguments(
        &mut self,
        node: &Node,
        name: &str,
        has_target: bool,
        arguments: &[Node],
    ) {
        let pattern_at = match (name, has_target) {
            ("matches", true) | ("find" | "findAll", true) => 0,
            ("matches", false) => 1,
            ("duration" | "timestamp", false) => 0,
            _ => return,
        };
        let Some(argument) = arguments.get(pattern_at) else { return };
        let Kind::Constant(Literal::String(text)) = &argument.kind else { return };
        let is_right = match name {
            "duration" => times::parse_duration(text).is_some(),
            "timestamp" => times::parse_timestamp(text).is_some(),
            _ => patterns::compile(text).is_ok(),
        };
        if !is_right {
            self.fault(if name == "matches" { argument } else { node }, invalid(name));
        }
    }
}

fn invalid(name: &str) -> String {
    format!("invalid {name} argument")
}
