//! What the host supplies so that an expression can ask whether somebody may do something.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go

/// A question an expression asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Who is asked for; nobody means the user of the request.
    pub service_account: Option<ServiceAccount>,
    pub verb: String,
    pub target: Target,
}

/// A service account in the place of the user of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

/// What the question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Path(String),
    Resource(Resource),
}

impl Default for Target {
    fn default() -> Target {
        Target::Resource(Resource::default())
    }
}

/// Attributes of a resource; empty means not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: Option<String>,
    pub label_selector: Option<String>,
}

/// The answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// Answers whether the user of the request, or a service account, may do something.
pub trait Authorizer {
    /// Guarantees: the answer does not depend on the order of questions.
    fn check(&self, question: &Question) -> Decision;
}
