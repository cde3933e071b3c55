//! Questions that are asked by creating an object, and never stored.

use super::Request;
use super::write::decode;
use crate::answer::Answer;
use crate::authenticate::Names;
use crate::identity::token_requests::{Bearer, token_review};
use crate::object;
use crate::rbac::reviews::{Review, review};
use crate::request::negotiate::{ACCEPTED, Representation};
use crate::server::Server;
use crate::status::Error;

/// Answers a review; `None` for resources that are none.
pub fn answer(server: &Server, request: &Request) -> Option<Result<Answer, Error>> {
    let resource = &request.resource;
    let kind = match (resource.group.as_str(), resource.plural.as_str()) {
        ("authorization.k8s.io", "subjectaccessreviews") => Review::SubjectAccess,
        ("authorization.k8s.io", "localsubjectaccessreviews") => {
            Review::LocalSubjectAccess { namespace: &request.target.namespace }
        }
        ("authorization.k8s.io", "selfsubjectaccessreviews") => Review::SelfSubjectAccess,
        ("authorization.k8s.io", "selfsubjectrulesreviews") => Review::SelfSubjectRules,
        ("authentication.k8s.io", "selfsubjectreviews") => Review::SelfSubject,
        ("authentication.k8s.io", "tokenreviews") => return Some(token(server, request)),
        _ => return None,
    };
    if let Representation::Table { .. } = request.representation {
        return Some(Err(Error::not_acceptable(ACCEPTED)));
    }
    let answer = decode(request).and_then(|mut body| {
        // A review is where the path says, as every other object.
        if resource.namespaced && object::namespace(&body).is_empty() {
            object::set_meta(&mut body, "namespace", request.target.namespace.as_str());
        }
        review(kind, &body, &request.user, &server.authorizer)
    });
    Some(answer.map(|answer| Answer::value(201, &answer)))
}

fn token(server: &Server, request: &Request) -> Result<Answer, Error> {
    let body = decode(request)?;
    let live = Names(server);
    let bearer = Bearer {
        known: &server.known_tokens,
        tokens: &server.tokens,
        live: &live,
        now: server.now(),
    };
    Ok(Answer::value(201, &token_review(&bearer, &body)?))
}
