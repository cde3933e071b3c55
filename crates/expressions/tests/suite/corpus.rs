//! Expressions with what they give, as data: `tests/corpus/values.txt`.

use expressions::{
    Binding, Bindings, Budget, Declared, Expected, ListKind, MapKind, Property, Scope, Value,
    VariableKind, compile,
};
use serde_json::json;

fn property(name: &str, declared: Declared) -> Property {
    Property { name: name.to_owned(), declared, required: false, has_default: false }
}

/// An object with one field of each kind.
fn declared() -> Declared {
    let text = || Declared::string(Some(20), None);
    let port =
        Declared::object("object", vec![property("name", text()), property("port", Declared::Int)]);
    let keys = ListKind::Map(vec!["name".to_owned()].into());
    Declared::object(
        "object",
        vec![
            property("count", Declared::Int),
            property("name", text()),
            property("missing", text()),
            property("a-b", text()),
            property("namespace", text()),
            property("tags", Declared::list(text(), Some(10), ListKind::Set)),
            property("plain", Declared::list(text(), Some(10), ListKind::Atomic)),
            property("ports", Declared::list(port, Some(10), keys)),
            property("labels", Declared::map(text(), Some(10), MapKind::Granular)),
            property("when", Declared::DateTime),
            property("day", Declared::Date),
            property("span", Declared::Duration),
            property("blob", Declared::bytes(None)),
            property("either", Declared::int_or_string(None)),
            property("ratio", Declared::Double),
        ],
    )
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::String(text) => text.as_str().to_owned(),
        other => other.type_name().to_owned(),
    }
}

fn outcome(expression: &str) -> String {
    let object = json!({
        "count": 3, "name": "web", "a-b": "dashed", "namespace": "ns", "tags": ["a", "b"],
        "plain": ["a", "b"], "labels": {"app": "web"}, "when": "2024-05-06T07:08:09Z",
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "day": "2024-05-06", "span": "1m", "blob": "aGVsbG8=", "either": "50%", "ratio": 0.5,
    });
    let scope = Scope::default().with("self", VariableKind::Declared(declared()));
    let program = match compile(expression, &scope, Expected::Any) {
        Ok(program) => program,
        Err(problems) => return format!("compile: {}", problems.problems[0].message),
    };
    let bindings = Bindings::default().with("self", Binding::Json(&object));
    let mut budget = Budget::default();
    match program.evaluate(&bindings, &mut budget) {
        Ok(value) => show(&value),
        Err(failure) => format!("error: {failure}"),
    }
}

#[test]
fn every_expression_gives_what_the_corpus_says() {
    let corpus = include_str!("../corpus/values.txt");
    let mut wrong = Vec::new();
    let mut pending = String::new();
    for line in corpus.lines().filter(|line| !line.starts_with('#')) {
        pending.push_str(line);
        let Some((expression, expected)) = pending.split_once(" => ") else {
            pending.push('\n');
            continue;
        };
        let found = outcome(expression);
        if found != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  found    {found}"));
        }
        pending.clear();
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
