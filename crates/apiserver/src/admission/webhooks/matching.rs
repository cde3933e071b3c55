//! Whether a webhook or a policy is asked about a write, and what it is shown.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook/generic/webhook.go

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::conditions::{self, Asker, Subject, Verdict};
use super::configuration::{OnFailure, Webhook};
use super::criteria::{Criteria, Matching};
use super::rules::{Rule, Write};
use super::{name, review, versions};
use crate::admission::{Attributes, Operation, lookup};
use crate::resources::Resource;
use crate::selectors::labels::Selector;
use crate::server::Server;
use crate::status::{About, Error};

static NULL: Value = Value::Null;
const NAMESPACES: About<'static> = About { group: "", resource: "namespaces" };

/// The version that somebody knows, where it is not the one of the request.
pub type Version = Option<Arc<Resource>>;

/// A write that webhooks and policies are asked about.
pub struct Asking<'a> {
    pub server: &'a Server,
    pub attributes: &'a Attributes<'a>,
    /// What was there before, as webhooks are shown it.
    pub old: Option<&'a Value>,
    /// The namespace of the write, read when it is first needed.
    namespace: OnceLock<Option<Value>>,
}

/// What a webhook is shown.
pub struct Shown<'a> {
    /// Where the version is not the one of the request.
    pub converted: Version,
    pub object: Cow<'a, Value>,
    pub old: Cow<'a, Value>,
    /// The request without the objects.
    pub request: Value,
}

impl<'a> Asking<'a> {
    pub fn new(
        server: &'a Server,
        attributes: &'a Attributes<'a>,
        old: Option<&'a Value>,
    ) -> Asking<'a> {
        Asking { server, attributes, old, namespace: OnceLock::new() }
    }

    /// What the webhook is to be asked, if it is to be asked at all.
    pub async fn shown<'o>(
        &self,
        webhook: &Webhook,
        object: &'o Value,
    ) -> Result<Option<Shown<'o>>, Error>
    where
        'a: 'o,
    {
        let Some(version) = self.selected(&webhook.criteria, object).await? else {
            return Ok(None);
        };
        let shown = self.show(version, object).await?;
        if webhook.conditions.is_empty() {
            return Ok(Some(shown));
        }
        match conditions::decide(&webhook.conditions, &self.subject(&shown).bindings()) {
            Verdict::Holds => Ok(Some(shown)),
            Verdict::DoesNotHold => Ok(None),
            Verdict::Failed(why) => match webhook.on_failure {
                OnFailure::Ignore => {
                    tracing::warn!(webhook = webhook.name, why, "match conditions failed open");
                    Ok(None)
                }
                OnFailure::Fail => {
                    let about = self.attributes.resource.about();
                    Err(Error::forbidden(about, name(self.attributes, object), &why))
                }
            },
        }
    }

    /// In which version the write is meant: none where it is not at all.
    pub async fn selected(
        &self,
        criteria: &Criteria,
        object: &Value,
    ) -> Result<Option<Version>, Error> {
        if self.version(&criteria.excluded, criteria.matching, object).is_some() {
            return Ok(None);
        }
        let version = match &criteria.rules {
            Some(rules) => self.version(rules, criteria.matching, object),
            None => Some(None),
        };
        let Some(version) = version else { return Ok(None) };
        let is_selected = self.selects_namespace(&criteria.namespaces, object).await?
            && selects_object(&criteria.objects, object, self.old);
        Ok(is_selected.then_some(version))
    }

    fn version(&self, rules: &[Rule], matching: Matching, object: &Value) -> Option<Version> {
        let Attributes { resource, subresource, .. } = *self.attributes;
        if self.is_ruled(rules, resource, object) {
            return Some(None);
        }
        if matching == Matching::Exact || rules.is_empty() {
            return None;
        }
        let others = versions::equivalents(self.server, resource, subresource);
        others.into_iter().find(|other| self.is_ruled(rules, other, object)).map(Some)
    }

    fn is_ruled(&self, rules: &[Rule], resource: &Resource, object: &Value) -> bool {
        let write = Write {
            operation: review::operation(self.attributes.operation),
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: self.attributes.subresource,
            name: name(self.attributes, object),
            is_namespaced: resource.namespaced,
        };
        rules.iter().any(|rule| rule.matches(&write))
    }

    async fn selects_namespace(
        &self,
        namespaces: &Selector,
        object: &Value,
    ) -> Result<bool, Error> {
        let Attributes { resource, operation, .. } = *self.attributes;
        let is_namespace = resource.kind == "Namespace" && resource.group.is_empty();
        if namespaces.is_everything() || !resource.namespaced && !is_namespace {
            return Ok(true);
        }
        let is_written = operation == Operation::Create || operation == Operation::Update;
        if is_namespace && is_written && self.attributes.subresource.is_empty() {
            return Ok(namespaces.matches_object(object));
        }
        let wanted = match is_namespace {
            true => name(self.attributes, object),
            false => self.attributes.namespace,
        };
        match self.namespace(wanted).await? {
            Some(namespace) => Ok(namespaces.matches_object(namespace)),
            None => Err(Error::not_found(NAMESPACES, wanted)),
        }
    }

    /// The namespace of the write, which has this name.
    pub async fn namespace(&self, name: &str) -> Result<Option<&Value>, Error> {
        if self.namespace.get().is_none() {
            let found = lookup::one(self.server, "", "namespaces", ("", name)).await?;
            // Whoever else has looked meanwhile has found the same.
            let _ = self.namespace.set(found);
        }
        Ok(self.namespace.get().and_then(Option::as_ref))
    }

    /// What somebody who knows this version is shown.
    pub async fn show<'o>(&self, version: Version, object: &'o Value) -> Result<Shown<'o>, Error>
    where
        'a: 'o,
    {
        let own = self.attributes.resource;
        let (mut object, mut old) =
            (Cow::Borrowed(object), Cow::Borrowed(self.old.unwrap_or(&NULL)));
        let resource = version.as_deref().unwrap_or(own);
        let kind = versions::kind_of(own, self.attributes.subresource);
        // A part that is the same kind in all versions is not converted.
        if kind != versions::kind_of(resource, self.attributes.subresource) {
            for value in [&mut object, &mut old] {
                if !value.is_null() {
                    *value = Cow::Owned(versions::convert(own, resource, value).await?);
                }
            }
        }
        let request = review::request(self, resource, &object);
        Ok(Shown { converted: version, object, old, request })
    }

    /// What expressions are about.
    pub fn subject<'s>(&'s self, shown: &'s Shown<'_>) -> Subject<'s> {
        let attributes = self.attributes;
        let resource = expressions::authorizer::Resource {
            group: attributes.resource.group.clone(),
            resource: attributes.resource.plural.clone(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace.to_owned(),
            name: name(attributes, &shown.object).to_owned(),
            ..Default::default()
        };
        let authorizer = &self.server.authorizer;
        let asker = Asker { authorizer, user: attributes.user, resource };
        Subject { request: &shown.request, object: &shown.object, old: &shown.old, asker }
    }
}

/// Whether what is written or what was there before is selected.
fn selects_object(selector: &Selector, object: &Value, old: Option<&Value>) -> bool {
    let selects = |object: &Value| object.is_object() && selector.matches_object(object);
    selector.is_everything() || selects(object) || old.is_some_and(selects)
}
