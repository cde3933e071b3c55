//! Asking the host's authorizer.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go

use crate::authorizer::{Authorizer, Decision, Question, Resource, ServiceAccount, Target};
use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

/// An authorizer, for the user of the request or for a service account.
#[derive(Clone)]
pub struct Authorization<'a> {
    pub(crate) host: &'a dyn Authorizer,
    pub(crate) service_account: Option<ServiceAccount>,
}

impl std::fmt::Debug for Authorization<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Authorization({:?})", self.service_account)
    }
}

/// A question that is being put together.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    by: Authorization<'a>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Path(String),
    Group(String),
    Resource(Resource),
}

impl<'a> Check<'a> {
    pub(crate) fn resource(host: &'a dyn Authorizer, resource: Resource) -> Check<'a> {
        let by = Authorization { host, service_account: None };
        Check { by, stage: Stage::Resource(resource) }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Path(_) => "kubernetes.authorization.PathCheck",
            Stage::Group(_) => "kubernetes.authorization.GroupCheck",
            Stage::Resource(_) => "kubernetes.authorization.ResourceCheck",
        }
    }
}

macro_rules! narrow {
    ($name:literal, $field:ident) => {
        Function {
            name: $name,
            overloads: &[concat!(
                "kubernetes.authorization.ResourceCheck.",
                $name,
                "(string) kubernetes.authorization.ResourceCheck"
            )],
            cost: Cost::One,
            call: |_, values| {
                narrow(values, |resource, text| resource.$field = text.to_owned().into())
            },
        }
    };
}

macro_rules! answer {
    ($name:literal, $result:literal, $part:expr) => {
        Function {
            name: $name,
            overloads: &[concat!("kubernetes.authorization.Decision.", $name, "() ", $result)],
            cost: Cost::One,
            call: |_, values| Ok(($part)(decision_of(values)?)),
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        overloads: &[
            "kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck",
        ],
        cost: Cost::One,
        call: path,
    },
    Function {
        name: "group",
        overloads: &[
            "kubernetes.authorization.Authorizer.group(string) kubernetes.authorization.GroupCheck",
        ],
        cost: Cost::One,
        call: group,
    },
    Function {
        name: "serviceAccount",
        overloads: &[concat!(
            "kubernetes.authorization.Authorizer.serviceAccount(string, string) ",
            "kubernetes.authorization.Authorizer"
        )],
        cost: Cost::One,
        call: service_account,
    },
    Function {
        name: "resource",
        overloads: &[concat!(
            "kubernetes.authorization.GroupCheck.resource(string) ",
            "kubernetes.authorization.ResourceCheck"
        )],
        cost: Cost::One,
        call: resource,
    },
    narrow!("subresource", subresource),
    narrow!("namespace", namespace),
    narrow!("name", name),
    narrow!("fieldSelector", field_selector),
    narrow!("labelSelector", label_selector),
    Function {
        name: "check",
        overloads: &[
            "kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision",
            concat!(
                "kubernetes.authorization.ResourceCheck.check(string) ",
                "kubernetes.authorization.Decision"
            ),
        ],
        cost: Cost::Fixed(350_000),
        call: check,
    },
    answer!("allowed", "bool", |decision: &Decision| Value::Bool(decision.allowed)),
    answer!("reason", "string", |decision: &Decision| Value::text(decision.reason.as_str())),
    answer!("errored", "bool", |decision: &Decision| Value::Bool(decision.error.is_some())),
    answer!("error", "string", |decision: &Decision| {
        Value::text(decision.error.as_deref().unwrap_or_default())
    }),
];

fn text_of<'v>(values: &'v [Value<'_>], index: usize) -> Result<&'v str, Failure> {
    values.get(index).and_then(Value::as_str).ok_or_else(Failure::no_such_overload)
}

fn opaque_of<'v, 'a>(values: &'v [Value<'a>]) -> Result<&'v Opaque<'a>, Failure> {
    match values.first() {
        Some(Value::Opaque(opaque)) => Ok(opaque),
        _ => Err(Failure::no_such_overload()),
    }
}

fn authorization_of<'v, 'a>(values: &'v [Value<'a>]) -> Result<&'v Authorization<'a>, Failure> {
    match opaque_of(values)? {
        Opaque::Authorizer(authorization) => Ok(authorization),
        _ => Err(Failure::no_such_overload()),
    }
}

fn check_of<'v, 'a>(values: &'v [Value<'a>]) -> Result<&'v Check<'a>, Failure> {
    match opaque_of(values)? {
        Opaque::Check(check) => Ok(check),
        _ => Err(Failure::no_such_overload()),
    }
}

fn decision_of<'v>(values: &'v [Value<'_>]) -> Result<&'v Decision, Failure> {
    match opaque_of(values)? {
        Opaque::Decision(decision) => Ok(decision),
        _ => Err(Failure::no_such_overload()),
    }
}

fn path<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (by, path) = (authorization_of(values)?.clone(), text_of(values, 1)?);
    if path.is_empty() {
        return Err(Failure::evaluation("path must not be empty"));
    }
    Ok(Value::opaque(Opaque::Check(Check { by, stage: Stage::Path(path.to_owned()) })))
}

fn group<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (by, group) = (authorization_of(values)?.clone(), text_of(values, 1)?);
    Ok(Value::opaque(Opaque::Check(Check { by, stage: Stage::Group(group.to_owned()) })))
}

fn service_account<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let mut by = authorization_of(values)?.clone();
    let (namespace, name) = (text_of(values, 1)?.to_owned(), text_of(values, 2)?.to_owned());
    by.service_account = Some(ServiceAccount { namespace, name });
    Ok(Value::opaque(Opaque::Authorizer(by)))
}

fn resource<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let check = check_of(values)?;
    let Stage::Group(group) = &check.stage else { return Err(Failure::no_such_overload()) };
    let resource = text_of(values, 1)?.to_owned();
    let resource = Resource { group: group.clone(), resource, ..Resource::default() };
    let check = Check { by: check.by.clone(), stage: Stage::Resource(resource) };
    Ok(Value::opaque(Opaque::Check(check)))
}

fn narrow<'a>(values: &[Value<'a>], change: fn(&mut Resource, &str)) -> Outcome<'a> {
    let mut check = check_of(values)?.clone();
    let Stage::Resource(resource) = &mut check.stage else {
        return Err(Failure::no_such_overload());
    };
    change(resource, text_of(values, 1)?);
    Ok(Value::opaque(Opaque::Check(check)))
}

fn check<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let check = check_of(values)?;
    let target = match &check.stage {
        Stage::Path(path) => Target::Path(path.clone()),
        Stage::Resource(resource) => Target::Resource(resource.clone()),
        Stage::Group(_) => return Err(Failure::no_such_overload()),
    };
    let question = Question {
        service_account: check.by.service_account.clone(),
        verb: text_of(values, 1)?.to_owned(),
        target,
    };
    Ok(Value::opaque(Opaque::Decision(check.by.host.check(&question))))
}
