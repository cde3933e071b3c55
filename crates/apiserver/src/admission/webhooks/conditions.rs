//! Match conditions: expressions that must hold for a webhook or a policy to be asked.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go

use std::sync::OnceLock;

use expressions::authorizer::{self, Question};
use expressions::{
    Binding, Bindings, Budget, CALL_COST_MAX, Expected, Problems, Program, Scope, compile,
};
use serde_json::Value;

use crate::identity::User;
use crate::rbac::{self, Authorizer, Decision};

/// What all conditions of a webhook may cost together.
const COST_MAX: u64 = 2_500_000;
/// What conditions may name.
const VARIABLES: [&str; 5] =
    ["object", "oldObject", "request", "authorizer", "authorizer.requestResource"];

/// A condition, compiled.
pub struct Condition {
    source: String,
    program: Result<Program, String>,
}

impl Condition {
    pub fn of(condition: &Value) -> Condition {
        Condition::new(condition, compiled)
    }

    /// One whose expression may name other things.
    pub fn new(
        condition: &Value,
        compile: impl FnOnce(&str) -> Result<Program, Problems>,
    ) -> Condition {
        let source = condition["expression"].as_str().unwrap_or_default().to_owned();
        let program =
            compile(&source).map_err(|problems| format!("compilation failed: {problems}"));
        Condition { source, program }
    }
}

/// Compiles the expression of a condition.
pub fn compiled(source: &str) -> Result<Program, Problems> {
    static SCOPE: OnceLock<Scope> = OnceLock::new();
    let scope = SCOPE.get_or_init(|| {
        let mut scope = Scope::admission();
        scope.variables.retain(|variable| VARIABLES.contains(&variable.name.as_str()));
        scope
    });
    compile(source, scope, Expected::Bool)
}

/// What conditions are about.
pub struct Subject<'a> {
    /// The request as a webhook is shown it.
    pub request: &'a Value,
    pub object: &'a Value,
    pub old: &'a Value,
    pub asker: Asker<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    DoesNotHold,
    /// No condition is false, but not all could be decided.
    Failed(String),
}

/// Whether all conditions hold. One that is false decides, whatever became of the others.
pub fn decide(conditions: &[Condition], bindings: &Bindings<'_>) -> Verdict {
    let mut budget = Budget::new(CALL_COST_MAX, COST_MAX);
    let mut failures = Vec::new();
    for condition in conditions {
        let decided = match &condition.program {
            Ok(program) => {
                program.decide(bindings, &mut budget).map_err(|failure| failure.to_string())
            }
            Err(problems) => Err(problems.clone()),
        };
        match decided {
            Ok(true) => {}
            Ok(false) => return Verdict::DoesNotHold,
            Err(why) => {
                failures
                    .push(format!("expression '{}' resulted in error: {why}", condition.source));
            }
        }
    }
    match &failures[..] {
        [] => Verdict::Holds,
        [one] => Verdict::Failed(one.clone()),
        many => Verdict::Failed(format!("[{}]", many.join(", "))),
    }
}

impl Subject<'_> {
    /// As the variables of expressions.
    pub fn bindings(&self) -> Bindings<'_> {
        let check = Binding::ResourceCheck(&self.asker, self.asker.resource.clone());
        Bindings::default()
            .with("object", Binding::Json(self.object))
            .with("oldObject", Binding::Json(self.old))
            .with("request", Binding::Json(self.request))
            .with("authorizer", Binding::Authorizer(&self.asker))
            .with("authorizer.requestResource", check)
    }
}

/// Answers what the user of the request, or a service account, may do.
pub struct Asker<'a> {
    pub authorizer: &'a Authorizer,
    pub user: &'a User,
    /// What the request is about.
    pub resource: authorizer::Resource,
}

impl authorizer::Authorizer for Asker<'_> {
    fn check(&self, question: &Question) -> authorizer::Decision {
        let account = question.service_account.as_ref();
        let account = account.map(|one| User::service_account(&one.namespace, &one.name, ""));
        let user = account.as_ref().unwrap_or(self.user);
        let verb = &question.verb;
        let attributes = match &question.target {
            authorizer::Target::Path(path) => {
                rbac::Attributes { verb, path: Some(path), ..Default::default() }
            }
            authorizer::Target::Resource(resource) => rbac::Attributes {
                verb,
                group: &resource.group,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                path: None,
            },
        };
        let (allowed, reason) = match self.authorizer.authorize(user, &attributes) {
            Decision::Allowed { reason } => (true, reason.to_string()),
            Decision::Denied { reason } => (false, reason),
        };
        authorizer::Decision { allowed, reason, error: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(expressions: &[&str]) -> Verdict {
        let conditions: Vec<Condition> =
            expressions.iter().map(|it| Condition::of(&json!({"expression": it}))).collect();
        let object = json!({"metadata": {"name": "a"}, "items": vec![1; 2_000]});
        let user = User::authenticated("root", ["system:masters"]);
        let authorizer = Authorizer::new();
        let resource = authorizer::Resource { resource: "pods".to_owned(), ..Default::default() };
        let asker = Asker { authorizer: &authorizer, user: &user, resource };
        let request = json!({"operation": "CREATE", "userInfo": {"username": "root"}});
        let (object, old) = (&object, &Value::Null);
        decide(&conditions, &Subject { request: &request, object, old, asker }.bindings())
    }

    #[test]
    fn all_conditions_must_hold() {
        assert_eq!(verdict(&[]), Verdict::Holds);
        assert_eq!(verdict(&["object.metadata.name == 'a'", "oldObject == null"]), Verdict::Holds);
        assert_eq!(verdict(&["request.operation == 'CREATE'"]), Verdict::Holds);
        assert_eq!(verdict(&["true", "request.userInfo.username == 'x'"]), Verdict::DoesNotHold);
        let may = "authorizer.requestResource.check('update').allowed()";
        assert_eq!(verdict(&[may]), Verdict::Holds);
        let may = "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get')";
        assert_eq!(verdict(&[&format!("{may}.allowed()")]), Verdict::DoesNotHold);
    }

    #[test]
    fn what_cannot_be_decided_is_a_failure_unless_a_condition_is_false() {
        let broken = "object.spec.x == 1";
        assert_eq!(verdict(&[broken, "false"]), Verdict::DoesNotHold);
        match verdict(&[broken, "true"]) {
            Verdict::Failed(why) => {
                assert_eq!(
                    why,
                    "expression 'object.spec.x == 1' resulted in error: no such key: spec"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conditions_have_a_budget() {
        let dear = "object.items.all(x, object.items.all(y, x == y))";
        assert!(matches!(verdict(&[dear]), Verdict::Failed(_)));
    }

    #[test]
    fn what_only_policies_know_cannot_be_named() {
        assert!(compiled("params.x == 1").is_err());
        assert!(compiled("namespaceObject == null").is_err());
        assert!(compiled("object.metadata.name").is_ok(), "an untyped value may be a bool");
        assert!(compiled("'text'").is_err());
    }
}
