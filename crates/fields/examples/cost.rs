//! Prints what the operations on a Deployment of some thirty fields cost, along a schema in
//! tables as a server would keep it.

use std::hint::black_box;

use fields::{
    Atom, Error, Force, Keys, List, Map, Request, Resource, Scalar, Set, Shape, apply, update,
    walk::fields_of::fields_of,
};
use serde_json::{Value, json};

/// A node of the schema.
struct Table {
    atom: Atom<'static>,
    /// By name.
    fields: &'static [(&'static str, Table)],
    /// Of the values of a map or the items of a list.
    each: Option<&'static Table>,
    default: Option<&'static str>,
}

#[derive(Clone, Copy)]
struct Row(&'static Table);

impl Shape for Row {
    fn atom(&self) -> Atom<'_> {
        self.0.atom
    }

    fn field(&self, name: &str) -> Option<Row> {
        let at = self.0.fields.binary_search_by(|(field, _)| (*field).cmp(name)).ok()?;
        Some(Row(&self.0.fields[at].1))
    }

    fn values(&self) -> Option<Row> {
        self.0.each.map(Row)
    }

    fn items(&self) -> Option<Row> {
        self.0.each.map(Row)
    }

    fn field_default(&self, name: &str) -> Option<Value> {
        self.field(name)?.0.default.map(Value::from)
    }
}

const fn leaf(scalar: Scalar) -> Table {
    Table { atom: Atom::scalar(scalar), fields: &[], each: None, default: None }
}

const fn object(fields: &'static [(&'static str, Table)]) -> Table {
    Table { atom: Atom::map(Map::Granular), fields, each: None, default: None }
}

const fn list(list: List<'static>, item: &'static Table) -> Table {
    Table { atom: Atom::list(list), fields: &[], each: Some(item), default: None }
}

const TEXT: Table = leaf(Scalar::String);
const NUMBER: Table = leaf(Scalar::Numeric);
const TEXTS: Table =
    Table { atom: Atom::map(Map::Granular), fields: &[], each: Some(&TEXT), default: None };
const META: Table = object(&[
    ("annotations", TEXTS),
    ("labels", TEXTS),
    ("managedFields", list(List::Atomic, &TEXTS)),
    ("name", TEXT),
    ("namespace", TEXT),
]);
const PORT: Table = object(&[
    ("containerPort", NUMBER),
    ("name", TEXT),
    ("protocol", Table { default: Some("TCP"), ..TEXT }),
]);
const CONTAINER: Table = object(&[
    ("command", list(List::Atomic, &TEXT)),
    ("env", list(List::Keyed(Keys::Texts(&["name"])), &object(&[("name", TEXT), ("value", TEXT)]))),
    ("image", TEXT),
    ("imagePullPolicy", TEXT),
    ("name", TEXT),
    ("ports", list(List::Keyed(Keys::Texts(&["containerPort", "protocol"])), &PORT)),
]);
const POD: Table = object(&[
    ("containers", list(List::Keyed(Keys::Texts(&["name"])), &CONTAINER)),
    ("serviceAccountName", TEXT),
    ("terminationGracePeriodSeconds", NUMBER),
]);
static DEPLOYMENT: Table = object(&[
    ("apiVersion", TEXT),
    ("kind", TEXT),
    ("metadata", META),
    (
        "spec",
        object(&[
            ("replicas", NUMBER),
            (
                "selector",
                Table { atom: Atom::map(Map::Atomic), ..object(&[("matchLabels", TEXTS)]) },
            ),
            ("strategy", object(&[("type", TEXT)])),
            ("template", object(&[("metadata", META), ("spec", POD)])),
        ]),
    ),
]);

struct Deployments;

impl Resource for Deployments {
    type Shape<'a> = Row;

    fn shape(&self, api_version: &str) -> Option<Row> {
        (api_version == "apps/v1").then_some(Row(&DEPLOYMENT))
    }
}

fn main() -> Result<(), Error> {
    let kind = Deployments;
    let object = deployment();
    let request = |manager| Request {
        manager,
        api_version: "apps/v1",
        subresource: "",
        time: "2024-01-01T00:00:00Z",
    };
    let shape = Row(&DEPLOYMENT);
    println!("{} fields", fields_of(shape, &object).len());
    measure("set of the object", || Ok(fields_of(shape, &object).len()))?;
    measure("set to FieldsV1 and back", || {
        Set::from_value(&fields_of(shape, &object).to_value()).map(|set| set.len())
    })?;
    measure("clone of the object", || Ok(object.clone()))?;
    measure("create (clone included)", || {
        let mut new = object.clone();
        update(&kind, None, &mut new, &request("a")).map(|()| new)
    })?;
    let mut created = object.clone();
    update(&kind, None, &mut created, &request("a"))?;
    measure("clone of the stored object", || Ok(created.clone()))?;
    let mut scaled = created.clone();
    scaled["spec"]["replicas"] = 5.into();
    measure("update by its manager (clone included)", || {
        let mut new = scaled.clone();
        update(&kind, Some(&created), &mut new, &request("a")).map(|()| new)
    })?;
    measure("update by another (clone included)", || {
        let mut new = scaled.clone();
        update(&kind, Some(&created), &mut new, &request("b")).map(|()| new)
    })?;
    measure("update that changes nothing (clone included)", || {
        let mut new = created.clone();
        update(&kind, Some(&created), &mut new, &request("b")).map(|()| new)
    })?;
    measure("apply that creates", || apply(&kind, None, &object, &request("a"), Force::No))?;
    let one = apply(&kind, None, &object, &request("a"), Force::No)?.object;
    measure("the same apply again", || {
        apply(&kind, Some(&one), &object, &request("a"), Force::No)
    })?;
    let mut other = object.clone();
    other["spec"]["replicas"] = 5.into();
    measure("apply of another value", || {
        apply(&kind, Some(&one), &other, &request("a"), Force::No)
    })?;
    other["metadata"]["labels"] = json!({"x": "1"});
    measure("apply that removes a label", || {
        apply(&kind, Some(&one), &other, &request("a"), Force::No)
    })?;
    let two = apply(&kind, Some(&one), &other, &request("b"), Force::Yes)?.object;
    measure("apply with two managers", || {
        apply(&kind, Some(&two), &other, &request("b"), Force::No)
    })?;
    Ok(())
}

const ROUNDS: u32 = 20_000;

fn measure<T>(what: &str, mut work: impl FnMut() -> Result<T, Error>) -> Result<(), Error> {
    for _ in 0..ROUNDS / 10 {
        black_box(work()?);
    }
    let start = cpu_nanoseconds();
    for _ in 0..ROUNDS {
        black_box(work()?);
    }
    let each = (cpu_nanoseconds() - start) / 1e3 / f64::from(ROUNDS);
    println!("{each:8.2} us  {what}");
    Ok(())
}

/// How long this thread has run, however busy the machine is; Linux says so.
fn cpu_nanoseconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {
                    "serviceAccountName": "web",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [
                        {
                            "name": "web", "image": "web:1", "imagePullPolicy": "Always",
                            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            "command": ["web"]
                        },
                        {"name": "side", "image": "side:1"}
                    ]
                }
            }
        }
    })
}
