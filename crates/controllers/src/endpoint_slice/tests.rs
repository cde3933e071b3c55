//! Plans of EndpointSlices.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;

fn service(more: Value) -> Object {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "a", "name": "web", "uid": "u", "labels": {"team": "x"},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    Object::new(service)
}

fn pod(number: usize, more: Value) -> Arc<Object> {
    let (name, ip) = (format!("p{number:03}"), format!("10.1.{}.{}", number / 250, number % 250));
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
    });
    for (path, value) in more.as_object().into_iter().flatten() {
        *pod.pointer_mut(path).expect("a place") = value.clone();
    }
    Arc::new(Object::new(pod))
}

fn observed(pods: Vec<Arc<Object>>, slices: Vec<Arc<Object>>) -> Observed {
    Observed { pods, slices, zones: [("n".to_owned(), "z".to_owned())].into() }
}

/// What the server holds after a plan.
fn after(plan: &Plan, before: &[Arc<Object>]) -> Vec<Arc<Object>> {
    let mut held: Vec<Arc<Object>> = before.to_vec();
    for step in &plan.steps {
        match step {
            Step::Create { object, .. } => held.push(Arc::new(Object::new(object.clone()))),
            Step::Replace { target, object, .. } => {
                held.retain(|slice| slice.name != target.name);
                held.push(Arc::new(Object::new(object.clone())));
            }
            Step::Delete { target, .. } => held.retain(|slice| slice.name != target.name),
            other => panic!("{other}"),
        }
    }
    held.sort_by_key(|slice| slice.name.clone());
    held
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.to_string().split(" a/").next().unwrap().to_owned()).collect()
}

const CREATE: &str = "create discovery.k8s.io/v1 EndpointSlice";
const REPLACE: &str = "replace discovery.k8s.io/v1 EndpointSlice";
const DELETE: &str = "delete discovery.k8s.io/v1 EndpointSlice";

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let service = service(json!({}));
    let first = plan::plan(&service, &observed(vec![], vec![]));
    assert_eq!(steps(&first), [CREATE]);
    let held = after(&first, &[]);
    assert_eq!(held[0].value["ports"], json!([]));
    assert_eq!(held[0].value["endpoints"], json!([]));
    let again = plan::plan(&service, &observed(vec![], held));
    assert!(again.steps.is_empty(), "{again}");
}

#[test]
fn a_slice_says_all_that_is_known_of_a_pod() {
    let service = service(json!({"trafficDistribution": "PreferClose"}));
    let pod = pod(1, json!({"/spec": {"nodeName": "n", "hostname": "h", "subdomain": "web"}}));
    let plan = plan::plan(&service, &observed(vec![pod], vec![]));
    let held = after(&plan, &[]);
    assert_eq!(
        held[0].value["endpoints"],
        json!([{
            "addresses": ["10.1.0.1"], "nodeName": "n", "zone": "z", "hostname": "h",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "a", "name": "p001", "uid": "p001"},
            "hints": {"forZones": [{"name": "z"}]},
        }])
    );
    assert_eq!(held[0].value["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(
        held[0].value["metadata"]["labels"],
        json!({"team": "x", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(held[0].annotation(service_pods::TRIGGER_TIME), Some("2026-01-01T00:00:05Z"));
}

#[test]
fn pods_that_leave_are_told_apart_from_pods_that_are_not_ready() {
    let leaving = json!({"/metadata": {"namespace": "a", "name": "p1", "uid": "p1",
        "labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let unready = json!({"/status/conditions": []});
    let cases = [
        (leaving.clone(), json!({}), [false, true, true]),
        (unready.clone(), json!({}), [false, false, false]),
        (unready, json!({"publishNotReadyAddresses": true}), [true, false, false]),
        (leaving, json!({"publishNotReadyAddresses": true}), [true, true, true]),
    ];
    for (change, more, expected) in cases {
        let plan = plan::plan(&service(more), &observed(vec![pod(1, change)], vec![]));
        let [ready, serving, terminating] = expected;
        assert_eq!(
            after(&plan, &[])[0].value["endpoints"][0]["conditions"],
            json!({"ready": ready, "serving": serving, "terminating": terminating})
        );
    }
}

#[test]
fn a_pod_that_is_over_or_whose_node_is_gone_is_not_listed() {
    let changes = [
        json!({"/status/phase": "Failed"}),
        json!({"/spec/nodeName": "gone"}),
        json!({"/status/podIPs": []}),
    ];
    for change in changes {
        let plan = plan::plan(&service(json!({})), &observed(vec![pod(1, change)], vec![]));
        assert_eq!(after(&plan, &[])[0].value["endpoints"], json!([]));
    }
}

#[test]
fn few_slices_are_written_when_few_pods_change() {
    let service = service(json!({}));
    let mut pods: Vec<_> = (0..250).map(|number| pod(number, json!({}))).collect();
    let first = plan::plan(&service, &observed(pods.clone(), vec![]));
    assert_eq!(steps(&first), [CREATE, CREATE, CREATE]);
    let held = after(&first, &[]);
    let sizes = |held: &[Arc<Object>]| {
        let size = |slice: &Arc<Object>| slice.value["endpoints"].as_array().unwrap().len();
        let mut sizes: Vec<usize> = held.iter().map(size).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&held), [50, 100, 100]);
    assert!(plan::plan(&service, &observed(pods.clone(), held.clone())).steps.is_empty());
    // One pod more goes where there is room; one less and one more change one slice.
    pods.push(pod(300, json!({})));
    let more = plan::plan(&service, &observed(pods.clone(), held.clone()));
    assert_eq!(steps(&more), [REPLACE]);
    let held = after(&more, &held);
    assert_eq!(sizes(&held), [51, 100, 100]);
    pods[0] = pod(301, json!({}));
    let swapped = plan::plan(&service, &observed(pods, held.clone()));
    assert_eq!(steps(&swapped), [REPLACE]);
    assert_eq!(sizes(&after(&swapped, &held)), [51, 100, 100]);
}

#[test]
fn pods_with_other_numbers_for_a_named_port_are_in_slices_of_their_own() {
    let service = service(json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]}));
    let offering = |number: usize, port: u16| {
        pod(
            number,
            json!({"/spec": {"nodeName": "n", "containers": [
            {"ports": [{"name": "web", "containerPort": port}]}]}}),
        )
    };
    let pods = vec![offering(1, 8080), offering(2, 9090), offering(3, 8080)];
    let first = plan::plan(&service, &observed(pods, vec![]));
    let held = after(&first, &[]);
    let mut shown: Vec<_> = held
        .iter()
        .map(|slice| {
            let number = slice.value["endpoints"].as_array().unwrap().len();
            (slice.value["ports"][0]["port"].as_u64().unwrap(), number)
        })
        .collect();
    shown.sort_unstable();
    assert_eq!(shown, [(8080, 2), (9090, 1)]);
    // The slice of a port that nobody serves any more goes.
    let fewer = plan::plan(&service, &observed(vec![offering(1, 8080)], held));
    assert_eq!(steps(&fewer), [REPLACE, DELETE]);
}

#[test]
fn every_family_has_slices() {
    let service = service(json!({"ipFamilies": ["IPv4", "IPv6"]}));
    let both = json!({"/status/podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}]});
    let plan = plan::plan(&service, &observed(vec![pod(1, both)], vec![]));
    let held = after(&plan, &[]);
    let mut shown: Vec<_> = held
        .iter()
        .map(|slice| (&slice.value["addressType"], &slice.value["endpoints"][0]["addresses"][0]))
        .map(|(family, address)| format!("{family} {address}"))
        .collect();
    shown.sort();
    assert_eq!(shown, ["\"IPv4\" \"10.0.0.7\"", "\"IPv6\" \"fd00::7\""]);
    // A service that gave up a family loses its slices.
    let one = super::tests::service(json!({}));
    let fewer = plan::plan(&one, &observed(vec![pod(1, json!({}))], held));
    assert_eq!(steps(&fewer), [REPLACE, DELETE]);
}

#[test]
fn labels_follow_the_service_and_strangers_are_left_alone() {
    let headless = service(json!({"clusterIP": "None"}));
    let held = after(&plan::plan(&headless, &observed(vec![], vec![])), &[]);
    assert_eq!(held[0].label(service_pods::HEADLESS), Some(""));
    let plain = service(json!({}));
    let plan = plan::plan(&plain, &observed(vec![], held.clone()));
    assert_eq!(after(&plan, &held)[0].label(service_pods::HEADLESS), None);
    for spec in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        assert!(plan::plan(&service(spec), &observed(vec![], vec![])).steps.is_empty());
    }
}
