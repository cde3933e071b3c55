//! Users, and the names of service accounts.

use serde_json::json;

use crate::identity::*;

#[test]
fn everybody_with_a_credential_is_in_the_authenticated_group_once() {
    let user = User::authenticated("a", ["x", GROUP_AUTHENTICATED]);
    assert_eq!(user.groups.len(), 2);
    assert!(User::component("c").is_in(GROUP_AUTHENTICATED));
    assert!(!User::anonymous().is_in(GROUP_AUTHENTICATED));
    assert!(!user.is_master());
    assert!(User::authenticated("root", [GROUP_MASTERS]).is_master());
}

#[test]
fn a_service_account_has_the_name_and_groups_of_its_namespace() {
    let user = User::service_account("ns", "sa", "u1");
    assert_eq!(
        user.to_info(),
        json!({
            "username": "system:serviceaccount:ns:sa", "uid": "u1",
            "groups": [
                "system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"
            ]
        })
    );
    assert_eq!(split_service_account(&user.name), Some(("ns", "sa")));
    for other in ["system:serviceaccount:ns", "system:serviceaccount::a", "x", "a:b:c:d"] {
        assert_eq!(split_service_account(other), None);
    }
}
