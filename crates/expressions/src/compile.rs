//! From source to a program that can be costed and evaluated many times.

use std::sync::Arc;

use crate::check::{self, Checked};
use crate::cost::{self, Estimate};
use crate::declared::Declared;
use crate::evaluate::{self, Bindings, Budget, Failure, FailureKind};
use crate::problems::Problems;
use crate::syntax;
use crate::types::Type;
use crate::value::Value;

/// A variable an expression may name.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
}

/// What a variable is bound to.
#[derive(Debug, Clone)]
pub enum VariableKind {
    Declared(Declared),
    /// Absent or present, as `oldSelf` with `optionalOldSelf`.
    Optional(Declared),
    /// An [`Authorizer`](crate::authorizer::Authorizer).
    Authorizer,
    /// The authorizer's check of the resource of the request.
    ResourceCheck,
}

/// The variables an expression may name.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub variables: Vec<Variable>,
}

impl Scope {
    /// `self` and `oldSelf` of a validation rule.
    pub fn rule(declared: &Declared) -> Scope {
        Scope::default()
            .with("self", VariableKind::Declared(declared.clone()))
            .with("oldSelf", VariableKind::Declared(declared.clone()))
    }

    /// The same where the rule says `optionalOldSelf: true`.
    pub fn rule_with_optional_old(declared: &Declared) -> Scope {
        Scope::default()
            .with("self", VariableKind::Declared(declared.clone()))
            .with("oldSelf", VariableKind::Optional(declared.clone()))
    }

    /// What match conditions and admission policies name. `object`, `oldObject` and `params` are
    /// not typed.
    pub fn admission() -> Scope {
        let untyped = || VariableKind::Declared(Declared::Dyn);
        Scope::default()
            .with("object", untyped())
            .with("oldObject", untyped())
            .with("params", untyped())
            .with("variables", untyped())
            .with("namespaceObject", untyped())
            .with("request", VariableKind::Declared(crate::admission::request()))
            .with("authorizer", VariableKind::Authorizer)
            .with("authorizer.requestResource", VariableKind::ResourceCheck)
    }

    /// One variable more.
    #[must_use]
    pub fn with(mut self, name: &str, kind: VariableKind) -> Scope {
        self.variables.push(Variable { name: name.to_owned(), kind });
        self
    }
}

/// What an expression must result in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Bool,
    String,
    Any,
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: String,
    scope: Scope,
    checked: Checked,
    estimate: Estimate,
}

/// Parses and type-checks an expression.
///
/// Errors: every fault with its place; the text of [`Problems`] is what follows
/// `compilation failed: ` in a refusal.
pub fn compile(source: &str, scope: &Scope, expected: Expected) -> Result<Program, Problems> {
    let tree = syntax::parse(source)?;
    let checked = check::check(source, tree, scope)?;
    let fits = matches!(
        (expected, &checked.result),
        (Expected::Any, _)
            | (Expected::Bool, Type::Bool | Type::Dyn)
            | (Expected::String, Type::String | Type::Dyn)
    );
    if !fits {
        let wanted = if expected == Expected::Bool { "bool" } else { "string" };
        let message = format!("cel expression must evaluate to a {wanted}");
        return Err(Problems::plain(message));
    }
    let estimate = cost::estimate(&checked, scope);
    let inner = Inner { source: source.to_owned(), scope: scope.clone(), checked, estimate };
    Ok(Program { inner: Arc::new(inner) })
}

impl Program {
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The type of the result.
    pub fn result(&self) -> &Type {
        &self.inner.checked.result
    }

    /// Whether the expression names this variable; a rule that names `oldSelf` is a transition
    /// rule.
    pub fn references(&self, variable: &str) -> bool {
        self.inner.checked.references.contains(variable)
    }

    /// What one evaluation may cost, from the declared sizes. A caller multiplies it by how often
    /// the rule can run, [`Estimate::times`].
    pub fn estimate(&self) -> Estimate {
        self.inner.estimate
    }

    /// Evaluates with the variables bound, paying from the budget.
    pub fn evaluate<'a>(
        &'a self,
        bindings: &Bindings<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, Failure> {
        evaluate::evaluate(&self.inner.checked, &self.inner.scope, bindings, budget)
    }

    /// Evaluates a rule.
    pub fn decide(&self, bindings: &Bindings<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        match self.evaluate(bindings, budget)? {
            Value::Bool(verdict) => Ok(verdict),
            other => Err(not_of_type("bool", &other)),
        }
    }

    /// Evaluates a message expression.
    pub fn text(&self, bindings: &Bindings<'_>, budget: &mut Budget) -> Result<String, Failure> {
        match self.evaluate(bindings, budget)? {
            Value::String(text) => Ok(text.as_str().to_owned()),
            other => Err(not_of_type("string", &other)),
        }
    }
}

fn not_of_type(wanted: &str, found: &Value<'_>) -> Failure {
    let message = format!("the expression gave a {}, not a {wanted}", found.type_name());
    Failure::new(FailureKind::Evaluation, message)
}

/// Programs are kept by whoever serves requests, on many threads.
const fn _shared<T: Send + Sync>() {}
const _: () = _shared::<Program>();
