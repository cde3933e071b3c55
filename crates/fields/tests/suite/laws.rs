//! What holds for all sets, objects and writes.

use crate::support::{Things, schemas, set};
use fields::{
    Applied, Error, Force, Managed, OpenApi, Request, Resource, Set, apply, strip, update,
    walk::{compare::compare, fields_of::fields_of, remove::remove},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

/// Paths of sets: few, so that they meet.
fn sets() -> impl Strategy<Value = Set> {
    const ELEMENTS: [&str; 7] =
        [".a", ".b", "[name=\"x\"]", "[name=\"x\",p=1]", "[=1]", "[=\"v\"]", "[0]"];
    vec(vec(select(&ELEMENTS[..]), 1..4), 0..8).prop_map(|paths| {
        set(&paths.iter().map(|path| path.concat()).collect::<Vec<_>>().join(" "))
    })
}

/// Configurations of a Thing without items twice.
fn configs() -> impl Strategy<Value = Value> {
    let names = || proptest::sample::subsequence(vec!["i", "j", "k"], 0..4);
    let item = |name: &'static str, value: u8| match value {
        0 => json!({"name": name}),
        1 => json!({"name": name, "list": ["x"]}),
        2 => json!({"name": name, "struct": {"inner": {"string": "x"}}}),
        value => json!({"name": name, "value": value}),
    };
    let parts = (
        proptest::option::of(0..3_u8),
        proptest::option::of(0..3_u8),
        names(),
        names().prop_shuffle(),
        (names().prop_shuffle(), vec(0..5_u8, 4)),
        0..64_u8,
    );
    parts.prop_map(move |(numeric, inner, keys, values, (items, kinds), bits)| {
        let mut config = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}});
        let has = |bit: u8| bits & (1 << bit) != 0;
        if let Some(numeric) = numeric {
            config["numeric"] = numeric.into();
        }
        if let Some(inner) = inner {
            config["struct"] = json!({"inner": {"numeric": inner}});
        }
        if has(0) {
            config["map"] = keys.iter().map(|key| (*key, Value::from("x"))).collect();
        }
        if has(1) {
            config["set"] = json!(values);
        }
        if has(2) {
            let items = items.iter().zip(&kinds).map(|(name, kind)| item(name, *kind));
            config["items"] = items.collect();
        }
        if has(3) {
            config["atomicMap"] = json!({"k": kinds[0].to_string()});
        }
        if has(4) {
            config["list"] = json!(values);
        }
        if has(5) {
            config["any"] = json!({"a": {"b": kinds[1]}, "l": [kinds[2]]});
        }
        config
    })
}

#[derive(Clone, Debug)]
struct Write {
    by: &'static str,
    kind: u8,
    config: Value,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = (select(&["a", "b", "c"][..]), 0..3_u8, configs());
    vec(write.prop_map(|(by, kind, config)| Write { by, kind, config }), 1..7)
}

fn request(by: &str) -> Request<'_> {
    Request { manager: by, api_version: "v1", subresource: "", time: "2024-01-01T00:00:00Z" }
}

fn perform(things: &Things<'_>, live: Option<&Value>, write: &Write) -> Option<Value> {
    let force = if write.kind == 1 { Force::Yes } else { Force::No };
    if write.kind == 2 {
        let mut new = write.config.clone();
        update(things, live, &mut new, &request(write.by)).unwrap();
        return Some(new);
    }
    match apply(things, live, &write.config, &request(write.by), force) {
        Ok(Applied { object, .. }) => Some(object),
        Err(Error::Conflicts(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn after(things: &Things<'_>, writes: &[Write]) -> Option<Value> {
    let mut live: Option<Value> = None;
    for write in writes {
        live = perform(things, live.as_ref(), write).or(live);
    }
    live
}

fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    strip(&mut object);
    object
}

fn applied(things: &Things<'_>, live: Option<&Value>, by: &str, config: &Value) -> Option<Value> {
    perform(things, live, &Write { by: Box::leak(by.into()), kind: 0, config: config.clone() })
}

fn owned(object: &Value) -> Vec<(String, Set)> {
    let managed = Managed::of_request(object).unwrap();
    let pair =
        |entry: &fields::Entry| (entry.identity.manager.clone(), entry.fields.set().unwrap());
    let mut owned: Vec<(String, Set)> = managed.entries.iter().map(pair).collect();
    owned.sort_by(|left, right| left.0.cmp(&right.0));
    owned
}

/// The long version is behind `SETPOINT_TEST_FULL`.
fn configuration() -> ProptestConfig {
    let cases = if std::env::var_os("SETPOINT_TEST_FULL").is_some() { 5_000 } else { 200 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn sets_obey_the_laws_of_sets(a in sets(), b in sets(), c in sets()) {
        let union = |x: &Set, y: &Set| x.clone().union(y);
        prop_assert_eq!(union(&a, &b), union(&b, &a));
        prop_assert_eq!(union(&union(&a, &b), &c), union(&a, &union(&b, &c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        let (with_b, with_c) = (a.intersection(&b), a.intersection(&c));
        prop_assert_eq!(a.intersection(&union(&b, &c)), union(&with_b, &with_c));
        prop_assert_eq!(union(&a.clone().difference(&b), &a.intersection(&b)), a.clone());
        prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
        prop_assert!(a.intersection(&b).is_within(&a));
        prop_assert!(a.is_within(&union(&a, &b)));
        prop_assert_eq!(a.is_within(&b), a.clone().difference(&b).is_empty());
        prop_assert!(a.clone().recursive_difference(&b).is_within(&a.clone().difference(&b)));
        prop_assert_eq!(union(&a, &b).len() + a.intersection(&b).len(), a.len() + b.len());
        prop_assert_eq!(a.paths().into_iter().collect::<Set>(), a.clone());
        prop_assert!(a.paths().iter().all(|path| a.has(path)));
    }

    #[test]
    fn a_set_is_read_as_it_was_written(a in sets()) {
        prop_assert_eq!(&Set::from_json(&a.to_json()).unwrap(), &a);
        prop_assert_eq!(&Set::from_value(&a.to_value()).unwrap(), &a);
    }

    #[test]
    fn any_text_is_a_set_or_an_error(text in "\\{(\"[fkvi.:a{}\\\\\"]{0,4}\":\\{\\},?){0,3}\\}") {
        let _ = Set::from_json(&text);
    }

    #[test]
    fn a_comparison_with_nothing_is_all(config in configs()) {
        let document = schemas();
        let shape = OpenApi::within(document, &document["Thing"]);
        prop_assert!(compare(shape, &config, &config).is_empty());
        let found = compare(shape, &json!({}), &config);
        prop_assert!(found.removed.is_empty() && found.modified.is_empty());
        prop_assert!(fields_of(shape, &config).is_within(&found.added));
        let back = compare(shape, &config, &json!({}));
        prop_assert_eq!(&back.removed, &found.added);
        prop_assert_eq!(remove(shape, config.clone(), &found.added), json!({}));
    }

    #[test]
    fn an_apply_is_idempotent(writes in writes(), config in configs()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        let live = after(&things, &writes);
        let write = Write { by: "a", kind: 1, config };
        let once = perform(&things, live.as_ref(), &write).unwrap();
        prop_assume!(!owned(&once).is_empty());
        let twice = perform(&things, Some(&once), &write).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_applied_is_there(writes in writes(), config in configs()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        let live = after(&things, &writes);
        let write = Write { by: "a", kind: 1, config: config.clone() };
        let object = perform(&things, live.as_ref(), &write).unwrap();
        let shape = things.shape("v1").unwrap();
        let found = compare(shape, &config, &bare(&object));
        prop_assert!(found.removed.is_empty() && found.modified.is_empty(), "{:?}", found);
    }

    #[test]
    fn applies_that_do_not_conflict_commute(one in configs(), two in configs()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        // After an apply that owns nothing, what is there counts as there before the first.
        let shape = things.shape("v1").unwrap();
        let owns = |config| !fields_of(shape, config).difference(fields::stripped()).is_empty();
        prop_assume!(owns(&one) && owns(&two));
        let both = |first: (&str, &Value), second: (&str, &Value)| {
            let live = applied(&things, None, first.0, first.1)?;
            applied(&things, Some(&live), second.0, second.1)
        };
        let (left, right) = (both(("a", &one), ("b", &two)), both(("b", &two), ("a", &one)));
        prop_assert_eq!(left.is_some(), right.is_some());
        if let (Some(left), Some(right)) = (left, right) {
            // The order of items is the later's; the fields and their owners are the same.
            prop_assert!(compare(shape, &bare(&left), &bare(&right)).is_empty());
            prop_assert_eq!(owned(&left), owned(&right));
        }
    }

    #[test]
    fn owners_own_only_what_is_there_and_no_part_of_what_is_atomic(writes in writes()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        let Some(object) = after(&things, &writes) else { return Ok(()) };
        let shape = things.shape("v1").unwrap();
        let all = compare(shape, &json!({}), &bare(&object)).added;
        for (by, fields) in owned(&object) {
            prop_assert!(fields.is_within(&all), "{}: {} of {}", by, fields, all);
            prop_assert!(!fields.is_empty());
            prop_assert!(fields.intersection(fields::stripped()).is_empty());
        }
    }

    #[test]
    fn a_leaf_that_a_write_changes_is_the_writers_alone(writes in writes(), last in configs()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        let live = after(&things, &writes);
        let last = Write { by: "z", kind: 2, config: last };
        // Nobody is tracked where everything was given up.
        prop_assume!(live.as_ref().is_none_or(|live| !owned(live).is_empty()));
        let object = perform(&things, live.as_ref(), &last).unwrap();
        let shape = things.shape("v1").unwrap();
        let before = live.as_ref().map_or(json!({}), bare);
        let changed = compare(shape, &before, &bare(&object)).changed();
        let changed = changed.difference(fields::stripped());
        for (by, fields) in owned(&object) {
            let shared = fields.intersection(&changed);
            prop_assert!(if by == "z" { shared == changed } else { shared.is_empty() }, "{}", by);
        }
    }

    #[test]
    fn writes_leave_entries_that_can_be_read_and_are_sorted(writes in writes()) {
        let document = schemas();
        let things = Things::new(document, "Thing");
        let Some(object) = after(&things, &writes) else { return Ok(()) };
        let managed = Managed::of_request(&object).unwrap();
        let mut again = bare(&object);
        managed.write(&mut again);
        prop_assert_eq!(again, object);
    }
}
