//! What expressions of a policy may name, and an expression, compiled.
//!
//! Upstream: apiserver/pkg/admission/plugin/cel/{compile,composition}.go

use expressions::{Expected, Problems, Program, Scope, compile};
use serde_json::Value;

const OBJECTS: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];
const AUTHORIZER: [&str; 2] = ["authorizer", "authorizer.requestResource"];
const PARAMETERS: &str = "params";
const VARIABLES: &str = "variables";

/// What an expression of a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Whether the policy is about a write.
    Condition,
    /// A variable for the others.
    Variable,
    Validation,
    /// What is said when a validation does not hold.
    Message,
    /// A note for whoever reads the audit log.
    Annotation,
}

/// Whether the policy is handed objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    None,
    Some,
}

impl Parameters {
    pub fn of(policy: &Value) -> Parameters {
        match policy["spec"]["paramKind"].is_object() {
            true => Parameters::Some,
            false => Parameters::None,
        }
    }
}

/// Compiles an expression.
pub fn compiled(
    source: &str,
    purpose: Purpose,
    parameters: Parameters,
) -> Result<Program, Problems> {
    let mut scope = Scope::admission();
    scope.variables.retain(|variable| {
        let name = variable.name.as_str();
        OBJECTS.contains(&name)
            || name == PARAMETERS && parameters == Parameters::Some
            || name == VARIABLES && purpose != Purpose::Condition
            || AUTHORIZER.contains(&name) && purpose != Purpose::Message
    });
    let expected = match purpose {
        Purpose::Condition | Purpose::Validation => Expected::Bool,
        Purpose::Message => Expected::String,
        Purpose::Variable | Purpose::Annotation => Expected::Any,
    };
    compile(source, &scope, expected)
}

/// The variables that an expression names, as `variables.NAME`.
pub fn variables_named(source: &str) -> Vec<&str> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let prefix = "variables.";
    let found = source.match_indices(prefix).filter(|(at, _)| {
        !source[..*at].ends_with(|before: char| is_part(before) || before == '.')
    });
    let names = found.map(|(at, _)| {
        let rest = &source[at + prefix.len()..];
        &rest[..rest.find(|character| !is_part(character)).unwrap_or(rest.len())]
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expression_names_what_is_known_when_it_is_asked() {
        let fits = |source: &str, purpose| compiled(source, purpose, Parameters::None).is_ok();
        assert!(fits("object.x == namespaceObject.metadata.name", Purpose::Condition));
        assert!(!fits("variables.x", Purpose::Condition));
        assert!(fits("variables.x", Purpose::Validation));
        assert!(!fits("params.x", Purpose::Validation));
        assert!(compiled("params.x", Purpose::Validation, Parameters::Some).is_ok());
        let may = "authorizer.path('/x').check('get').allowed()";
        assert!(fits(may, Purpose::Validation));
        assert!(!fits(&format!("string({may})"), Purpose::Message));
        assert!(!fits("1", Purpose::Validation) && fits("1", Purpose::Variable));
        assert!(!fits("1", Purpose::Message) && fits("'x'", Purpose::Message));
    }

    #[test]
    fn variables_are_found_where_they_are_named() {
        let named = variables_named("variables.a > 1 && !(variables.b_1) || object.variables.c");
        assert_eq!(named, ["a", "b_1"]);
        assert_eq!(variables_named("myvariables.a + variables."), [""; 0]);
    }
}
