//! Estimates and costs of evaluation as data: `tests/corpus/costs.txt`; and what a budget does.

use expressions::{
    Bindings, Budget, Declared, Expected, FailureKind, ListKind, MapKind, Property, Scope, compile,
};
use serde_json::json;

fn property(name: &str, declared: Declared) -> Property {
    Property { name: name.to_owned(), declared, required: false, has_default: false }
}

fn declared() -> Declared {
    let text = || Declared::string(Some(10), None);
    Declared::object(
        "object",
        vec![
            property("count", Declared::Int),
            property("name", text()),
            property("missing", text()),
            property("names", Declared::list(text(), Some(10), ListKind::Atomic)),
            property("labels", Declared::map(text(), Some(10), MapKind::Granular)),
        ],
    )
}

#[test]
fn rules_cost_what_the_corpus_says() {
    let object = json!({
        "count": 3, "name": "web", "names": ["web", "db"], "labels": {"app": "web"},
    });
    let mut wrong = Vec::new();
    let corpus = include_str!("../corpus/costs.txt");
    for line in corpus.lines().filter(|line| !line.starts_with('#')) {
        let (rule, expected) = line.split_once(" => ").unwrap();
        let program = compile(rule, &Scope::rule(&declared()), Expected::Bool).unwrap();
        let mut budget = Budget::default();
        program.decide(&Bindings::rule(&object, None), &mut budget).unwrap();
        let estimate = program.estimate();
        let found = format!("{}..{}, {}", estimate.min, estimate.max, budget.spent);
        if found != expected {
            wrong.push(format!("{rule} => {found} (expected {expected})"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_a_call_costs_is_taken_from_the_budget_of_the_object() {
    let rule = "self.names.all(x, x != 'a')";
    let program = compile(rule, &Scope::rule(&declared()), Expected::Bool).unwrap();
    let object = json!({"names": ["b", "c"]});
    let mut budget = Budget::new(1_000, 20);
    let bindings = Bindings::rule(&object, None);
    assert!(program.decide(&bindings, &mut budget).unwrap());
    let failure = program.decide(&bindings, &mut budget).unwrap_err();
    assert_eq!(failure.kind, FailureKind::ObjectCost);
    let mut budget = Budget::new(5, 1_000);
    let failure = program.decide(&bindings, &mut budget).unwrap_err();
    assert_eq!(failure.kind, FailureKind::CallCost);
    assert_eq!(failure.to_string(), "operation cancelled: actual cost limit exceeded");
}

#[test]
fn a_transition_rule_is_known_by_its_variable() {
    let compile_rule = |rule: &str, scope: Scope| compile(rule, &scope, Expected::Bool).unwrap();
    let rule = compile_rule("self == oldSelf", Scope::rule(&Declared::Int));
    assert!(rule.references("oldSelf"));
    let (new, old) = (json!(1), json!(2));
    let mut budget = Budget::default();
    assert!(!rule.decide(&Bindings::rule(&new, Some(&old)), &mut budget).unwrap());
    let optional = compile_rule(
        "oldSelf.hasValue() ? oldSelf.value() == self : true",
        Scope::rule_with_optional_old(&Declared::Int),
    );
    assert!(optional.decide(&Bindings::rule(&new, None), &mut budget).unwrap());
    assert!(!optional.decide(&Bindings::rule(&new, Some(&old)), &mut budget).unwrap());
}

#[test]
fn faults_are_shown_with_their_place() {
    let scope = Scope::rule(&declared());
    let problems =
        compile("self.x == 1 ||\n  self.count == 'a'", &scope, Expected::Bool).unwrap_err();
    let expected = "ERROR: <input>:1:5: undefined field 'x'\n | self.x == 1 ||\n | ....^\n\
                    ERROR: <input>:2:14: found no matching overload for '_==_' applied to \
                    '(int, string)'\n |   self.count == 'a'\n | .............^";
    assert_eq!(problems.to_string(), expected);
    let problems = compile("self.count", &scope, Expected::Bool).unwrap_err();
    assert_eq!(problems.to_string(), "cel expression must evaluate to a bool");
    let problems = compile("self.count", &scope, Expected::String).unwrap_err();
    assert_eq!(problems.to_string(), "cel expression must evaluate to a string");
}
