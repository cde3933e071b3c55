//! Names, labels, annotations, owners, finalizers.

use super::{check, check_changes, check_changes_of};

#[test]
fn names_keep_the_rule_of_their_kind() {
    check(
        "/ConfigMap",
        r#"
        => ok
        metadata.name = "a.b-c" => ok
        metadata.name = "A" => metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        metadata.name = "" => metadata.name: Required value: name or generateName is required
        metadata.generateName = "A-" ; metadata.name = "a" => metadata.generateName: Invalid value: "A-": a lowercase RFC 1123...
        metadata.generateName = "web-" ; metadata.name = "web-x" => ok
        metadata.namespace - => metadata.namespace: Required value
        metadata.namespace = "a.b" => metadata.namespace: Invalid value: "a.b": must not contain dots
        "#,
    );
    check(
        "/Service",
        r#"
        metadata.name = "1a" => metadata.name: Invalid value: "1a": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        "#,
    );
    check(
        "/Namespace",
        r#"
        metadata.name = "a.b" => metadata.name: Invalid value: "a.b": must not contain dots
        metadata.namespace = "x" => metadata.namespace: Forbidden: not allowed on this type
        metadata.name = "a_b" => metadata.name: Invalid value: "a_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        "#,
    );
    check(
        "rbac.authorization.k8s.io/ClusterRole",
        r#"
        metadata.name = "System:Node" => ok
        metadata.name = "a/b" => metadata.name: Invalid value: "a/b": may not contain '/'
        metadata.name = ".." => metadata.name: Invalid value: "..": may not be '..'
        "#,
    );
}

#[test]
fn long_names_are_refused() {
    let name = "a".repeat(254);
    let case = format!(
        "metadata.name = {name:?} => metadata.name: Invalid value: {name:?}: must be no more than \
         253 characters"
    );
    check("/ConfigMap", &case);
    let name = "a".repeat(64);
    let case = format!(
        "metadata.name = {name:?} => metadata.name: Invalid value: {name:?}: must be no more than \
         63 characters && ..."
    );
    check("/Namespace", &case);
}

#[test]
fn labels_and_annotations_have_their_forms() {
    check(
        "/ConfigMap",
        r#"
        metadata.labels = {"example.com/a": "B_c.d"} => ok
        metadata.labels = {"a b": ""} => metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        metadata.labels = {"a": "-x"} => metadata.labels: Invalid value: "-x": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        metadata.labels = {"/a": ""} => metadata.labels: Invalid value: "/a": prefix part must be non-empty
        metadata.labels = {"A.b/c": ""} => metadata.labels: Invalid value: "A.b/c": prefix part a lowercase RFC 1123 subdomain...
        metadata.labels = {"a/": ""} => metadata.labels: Invalid value: "a/": name part must be non-empty && ...
        metadata.labels = {"a/b/c": ""} => metadata.labels: Invalid value: "a/b/c": a valid label key must consist...
        metadata.annotations = {"Example.com/A": "anything at all"} => ok
        metadata.annotations = {"a b": ""} => metadata.annotations: Invalid value: "a b": name part must consist...
        "#,
    );
    let value = "x".repeat(64);
    let case = format!(
        "metadata.labels = {{\"a\": {value:?}}} => metadata.labels: Invalid value: {value:?}: must \
         be no more than 63 bytes"
    );
    check("/ConfigMap", &case);
    let value = "x".repeat(256 * 1024);
    let case = format!(
        "metadata.annotations = {{\"a\": {value:?}}} => metadata.annotations: Too long: may not be \
         more than 262144 bytes"
    );
    check("/ConfigMap", &case);
}

#[test]
fn owners_and_finalizers_are_whole() {
    check(
        "/ConfigMap",
        r#"
        metadata.ownerReferences = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] => ok
        metadata.ownerReferences = [{"apiVersion": "v1", "kind": "Pod", "name": "p"}] => metadata.ownerReferences.uid: Invalid value: "": must not be empty
        metadata.ownerReferences = [{"apiVersion": "", "kind": "", "name": "", "uid": "u"}] => metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty && metadata.ownerReferences.kind: Invalid value: "": must not be empty && metadata.ownerReferences.name: Invalid value: "": must not be empty
        metadata.ownerReferences = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "v", "controller": true}] => metadata.ownerReferences: Invalid value: [...
        metadata.finalizers = ["example.com/a"] => ok
        metadata.finalizers = ["orphan"] => ok
        metadata.finalizers = ["a"] => metadata.finalizers[0]: Invalid value: "a": name is neither a standard finalizer name nor is it fully qualified
        metadata.finalizers = ["orphan", "foregroundDeletion"] => metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set
        metadata.generation = -1 => ok
        "#,
    );
}

#[test]
fn identity_does_not_change() {
    check_changes(
        "/ConfigMap",
        r#"
        data.a = "2" => ok
        metadata.name = "b" => metadata.name: Invalid value: "b": field is immutable
        metadata.namespace = "other" => metadata.namespace: Invalid value: "other": field is immutable
        metadata.uid = "u-2" => metadata.uid: Invalid value: "u-2": field is immutable
        metadata.uid - => ok
        metadata.creationTimestamp = "2020-01-01T00:00:00Z" => ok
        metadata.deletionTimestamp = "2020-01-01T00:00:00Z" => ok
        metadata.labels = {"a": "b"} => ok
        "#,
    );
    check_changes_of(
        "/ConfigMap",
        "",
        r#"metadata.deletionTimestamp = "2020-01-01T00:00:00Z" ; metadata.finalizers = ["a.b/c"]"#,
        r#"
        metadata.finalizers = [] => ok
        metadata.finalizers = ["a.b/c", "a.b/d"] => metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/d"}
        "#,
    );
}
