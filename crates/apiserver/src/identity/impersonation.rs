//! Asking as somebody else.
//!
//! Upstream: apiserver/pkg/endpoints/filters/impersonation.go

use std::collections::BTreeMap;

use super::{
    COMPONENT, GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, User,
    service_account_groups, split_service_account,
};
use crate::rbac::Attributes;
use crate::status::Error;

const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// Who the request is to be made as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Reads the headers of a request, as pairs of a name and a value.
pub fn requested<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<Impersonation>, Error> {
    let mut wanted = Impersonation::default();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "impersonate-user" => wanted.user = value.to_owned(),
            "impersonate-uid" => wanted.uid = value.to_owned(),
            "impersonate-group" => wanted.groups.push(value.to_owned()),
            other => {
                if let Some(key) = other.strip_prefix(EXTRA_PREFIX) {
                    wanted.extra.entry(unescape(key)).or_default().push(value.to_owned());
                }
            }
        }
    }
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == Impersonation::default() {
        return Ok(None);
    }
    // Upstream answers 500; nothing of ours has failed.
    Err(Error::bad_request("impersonation of groups, a uid or extra fields needs a user"))
}

impl Impersonation {
    /// The impersonation that made a user, without the groups that every such user has.
    pub fn of_user(user: &User) -> Impersonation {
        let implied: Vec<String> = match split_service_account(&user.name) {
            Some((namespace, _)) => service_account_groups(namespace).into_iter().collect(),
            None => Vec::new(),
        };
        let is_implied = |group: &&str| {
            [GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED].contains(group)
                || implied.iter().any(|implied| implied == group)
        };
        let groups = user.groups.iter().map(|group| &**group);
        Impersonation {
            user: user.name.to_string(),
            uid: user.uid.clone(),
            groups: groups.filter(|group| !is_implied(group)).map(str::to_owned).collect(),
            extra: user.extra.clone(),
        }
    }

    /// Everything the real user must be allowed.
    pub fn needs(&self) -> Vec<Attributes<'_>> {
        let impersonate = Attributes { verb: "impersonate", ..Attributes::default() };
        let user = match split_service_account(&self.user) {
            Some((namespace, name)) => {
                Attributes { resource: "serviceaccounts", namespace, name, ..impersonate }
            }
            None => Attributes { resource: "users", name: &self.user, ..impersonate },
        };
        let authentication = Attributes { group: AUTHENTICATION_GROUP, ..impersonate };
        let mut needs = vec![user];
        for group in &self.groups {
            needs.push(Attributes { resource: "groups", name: group, ..impersonate });
        }
        for (key, values) in &self.extra {
            needs.extend(values.iter().map(|value| Attributes {
                resource: "userextras",
                subresource: key,
                name: value,
                ..authentication
            }));
        }
        if !self.uid.is_empty() {
            needs.push(Attributes { resource: "uids", name: &self.uid, ..authentication });
        }
        needs
    }

    /// The user the request goes on as.
    pub fn into_user(mut self) -> User {
        self.extra.remove(COMPONENT);
        let mut groups = self.groups;
        if let (true, Some((namespace, _))) = (groups.is_empty(), split_service_account(&self.user))
        {
            groups.extend(service_account_groups(namespace));
        }
        let general = match self.user.as_str() {
            USER_ANONYMOUS => GROUP_UNAUTHENTICATED,
            _ => GROUP_AUTHENTICATED,
        };
        let told = |group: &String| group == GROUP_AUTHENTICATED || group == GROUP_UNAUTHENTICATED;
        if !groups.iter().any(told) {
            groups.push(general.to_owned());
        }
        User {
            name: self.user.into(),
            uid: self.uid,
            groups: groups.iter().map(|group| group.as_str().into()).collect(),
            extra: self.extra,
        }
    }
}

/// Undoes the escaping of characters that a header name cannot have.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.split_at_checked(2)).flatten().and_then(
            |(hex, after)| {
                let hex = std::str::from_utf8(hex).ok().filter(|hex| !hex.starts_with('+'))?;
                Some((u8::from_str_radix(hex, 16).ok()?, after))
            },
        );
        let (byte, next) = escaped.unwrap_or((*first, after));
        bytes.push(byte);
        rest = next;
    }
    // What is not text after all is taken as it was written.
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::denial;

    fn read(headers: &[(&str, &str)]) -> Option<Impersonation> {
        requested(headers.iter().copied()).unwrap()
    }

    #[test]
    fn every_header_needs_a_right_of_its_own() {
        let wanted = read(&[
            ("Accept", "x"),
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "dev"),
            ("impersonate-group", "ops"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-Acme.com%2Fscope", "a"),
            ("Impersonate-Extra-acme.com%2fscope", "b"),
        ])
        .unwrap();
        let boss = User::component("boss");
        let needs: Vec<String> =
            wanted.needs().iter().map(|one| denial(&boss, one, "").message).collect();
        let end = r#"in API group "authentication.k8s.io" at the cluster scope"#;
        let start = r#"is forbidden: User "boss" cannot impersonate resource"#;
        let expected = [
            format!(r#"users "ann" {start} "users" in API group "" at the cluster scope"#),
            format!(r#"groups "dev" {start} "groups" in API group "" at the cluster scope"#),
            format!(r#"groups "ops" {start} "groups" in API group "" at the cluster scope"#),
            format!(
                r#"userextras.authentication.k8s.io "a" {start} "userextras/acme.com/scope" {end}"#
            ),
            format!(
                r#"userextras.authentication.k8s.io "b" {start} "userextras/acme.com/scope" {end}"#
            ),
            format!(r#"uids.authentication.k8s.io "7" {start} "uids" {end}"#),
        ];
        assert_eq!(needs, expected);
        let user = wanted.into_user();
        assert_eq!(user.uid, "7");
        assert!(user.is_in("dev") && user.is_in("ops") && user.is_in(GROUP_AUTHENTICATED));
    }

    #[test]
    fn a_service_account_brings_its_groups() {
        let wanted = read(&[("Impersonate-User", "system:serviceaccount:ns:sa")]).unwrap();
        let needs = wanted.needs();
        assert_eq!(needs.len(), 1);
        let one = needs[0];
        assert_eq!((one.resource, one.namespace, one.name), ("serviceaccounts", "ns", "sa"));
        let user = wanted.into_user();
        assert_eq!(user.groups.len(), 3);
        assert!(user.is_in("system:serviceaccounts:ns"));
    }

    #[test]
    fn anonymous_can_be_impersonated_and_nobody_cannot() {
        let user = read(&[("Impersonate-User", "system:anonymous")]).unwrap().into_user();
        assert_eq!(user, User::anonymous());
        assert_eq!(read(&[("X", "y")]), None);
        assert_eq!(read(&[("Impersonate-User", "")]), None);
        let headers = [("Impersonate-Group", "system:masters")];
        assert_eq!(requested(headers).unwrap_err().code, 400);
    }

    #[test]
    fn broken_escapes_are_taken_as_written() {
        for (key, expected) in [("a%2", "a%2"), ("%zz", "%zz"), ("%+1", "%+1"), ("%ff", "%ff")] {
            assert_eq!(unescape(key), expected);
        }
    }
}
