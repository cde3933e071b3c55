//! Match conditions: the variables of an admission request, and the host's authorizer.

use std::cell::RefCell;

use expressions::authorizer::{Authorizer, Decision, Question, Resource, Target};
use expressions::{Binding, Bindings, Budget, Expected, Scope, compile};
use serde_json::json;

#[derive(Default)]
struct Host {
    asked: RefCell<Vec<Question>>,
}

impl Authorizer for Host {
    fn check(&self, question: &Question) -> Decision {
        self.asked.borrow_mut().push(question.clone());
        let allowed = question.verb == "get";
        Decision { allowed, reason: "because".to_owned(), error: None }
    }
}

fn decide(host: &Host, condition: &str) -> Result<bool, String> {
    let scope = Scope::admission();
    let program =
        compile(condition, &scope, Expected::Bool).map_err(|problems| problems.to_string())?;
    let object = json!({"metadata": {"name": "a", "namespace": "b", "labels": {"x-y": "1"}}});
    let request = json!({
        "operation": "CREATE", "namespace": "b", "kind": {"group": "", "kind": "Pod"},
        "userInfo": {"username": "system:node:n", "groups": ["system:nodes"]},
    });
    let old = json!(null);
    let resource = Resource { resource: "pods".to_owned(), ..Resource::default() };
    let bindings = Bindings::default()
        .with("object", Binding::Json(&object))
        .with("oldObject", Binding::Json(&old))
        .with("request", Binding::Json(&request))
        .with("authorizer", Binding::Authorizer(host))
        .with("authorizer.requestResource", Binding::ResourceCheck(host, resource));
    let mut budget = Budget::new(1_000_000, 2_500_000);
    program.decide(&bindings, &mut budget).map_err(|failure| failure.to_string())
}

#[test]
fn match_conditions_read_the_request_and_the_objects() {
    let host = Host::default();
    let conditions = [
        ("object.metadata.namespace == 'b'", Ok(true)),
        ("object.metadata.labels['x-y'] == '1'", Ok(true)),
        ("oldObject == null", Ok(true)),
        ("request.namespace == 'b' && request.operation == 'CREATE'", Ok(true)),
        ("!(request.kind.kind in ['Lease'])", Ok(true)),
        ("request.userInfo.groups.exists(g, g == 'system:nodes')", Ok(true)),
        ("!request.userInfo.username.startsWith('system:node:')", Ok(false)),
        ("object.spec.x == 1", Err("no such key: spec".to_owned())),
        ("has(object.spec)", Ok(false)),
        ("object.metadata.name + 1 == 2", Err("no such overload".to_owned())),
        ("params.x == 1", Err("no such attribute(s): params".to_owned())),
    ];
    for (condition, expected) in conditions {
        assert_eq!(decide(&host, condition), expected, "{condition}");
    }
}

#[test]
fn the_authorizer_is_asked_what_the_expression_says() {
    let host = Host::default();
    let condition = "authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments')\
                     .subresource('status').namespace('b').name('c').check('get').allowed()";
    assert_eq!(decide(&host, condition), Ok(true));
    assert_eq!(decide(&host, "authorizer.path('/healthz').check('put').allowed()"), Ok(false));
    let condition = "authorizer.requestResource.check('get').reason() == 'because'";
    assert_eq!(decide(&host, condition), Ok(true));
    let condition = "!authorizer.requestResource.check('get').errored()";
    assert_eq!(decide(&host, condition), Ok(true));
    let condition = "authorizer.group('').resource('pods').fieldSelector('a=b')\
                     .labelSelector('c').check('get').error() == ''";
    assert_eq!(decide(&host, condition), Ok(true));
    let asked = host.asked.borrow();
    let account = asked[0].service_account.clone().unwrap();
    assert_eq!((account.namespace.as_str(), account.name.as_str()), ("ns", "sa"));
    let Target::Resource(resource) = &asked[0].target else { panic!("a resource was asked for") };
    assert_eq!((resource.group.as_str(), resource.name.as_str()), ("apps", "c"));
    let Target::Resource(resource) = &asked[4].target else { panic!("a resource was asked for") };
    assert_eq!(resource.field_selector.as_deref(), Some("a=b"));
    assert_eq!(resource.label_selector.as_deref(), Some("c"));
    assert_eq!(asked[1].target, Target::Path("/healthz".to_owned()));
}

#[test]
fn three_authorization_checks_exceed_one_call() {
    let host = Host::default();
    let check = "authorizer.path('/a').check('get').allowed()";
    assert_eq!(decide(&host, &format!("{check} && {check}")), Ok(true));
    let failure = decide(&host, &format!("{check} && {check} && {check}")).unwrap_err();
    assert_eq!(failure, "operation cancelled: actual cost limit exceeded");
}
