//! The table of run strategies, back-off, and what people are shown.

use super::*;

fn machine(strategy: &str, status: Value) -> Object {
    Object::new(json!({
        "metadata": {"namespace": "a", "name": "vm", "uid": "m", "finalizers": [FINALIZER]},
        "spec": {"runStrategy": strategy, "template": {"spec": {"domain": {}}}},
        "status": status}))
}

fn instance(phase: &str) -> Arc<Object> {
    let made = make::instance(&machine("Always", json!({})));
    let mut object = Object::new(made);
    object.value["status"] = json!({"phase": phase});
    object.value["metadata"]["uid"] = json!("i");
    Arc::new(Object::new((*object.value).clone()))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// What is done with the instance, in one word.
fn done(machine: &Object, instance: Option<Arc<Object>>) -> String {
    let plan = plan(machine, &Observed { instance, ..Observed::default() }, at(0));
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let word = |step: &String| step.split(' ').next().unwrap_or_default().to_owned();
    steps.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_done_follows_from_the_strategy() {
    let known = |strategy: &str| json!({"runStrategy": strategy});
    let start = |strategy: &str| {
        let requests = json!([{"action": "Start"}]);
        json!({"runStrategy": strategy, "stateChangeRequests": requests})
    };
    let stop = |strategy: &str| {
        let requests = json!([{"action": "Stop", "uid": "i"}]);
        json!({"runStrategy": strategy, "stateChangeRequests": requests})
    };
    for (strategy, status, phase, expected) in [
        ("Always", known("Always"), None, "create"),
        ("Always", known("Always"), Some("Running"), ""),
        ("Always", known("Always"), Some("Failed"), "delete"),
        ("Always", known("Always"), Some("Succeeded"), "delete"),
        ("Always", stop("Always"), Some("Running"), "delete"),
        ("RerunOnFailure", known("RerunOnFailure"), None, ""),
        ("RerunOnFailure", known("Halted"), None, "create"),
        ("RerunOnFailure", start("RerunOnFailure"), None, "create"),
        ("RerunOnFailure", known("RerunOnFailure"), Some("Failed"), "delete"),
        ("RerunOnFailure", known("RerunOnFailure"), Some("Succeeded"), "delete"),
        ("Manual", known("Manual"), None, ""),
        ("Manual", start("Manual"), None, "create"),
        ("Manual", known("Manual"), Some("Failed"), ""),
        ("Manual", stop("Manual"), Some("Running"), "delete"),
        ("Halted", known("Halted"), None, ""),
        ("Halted", start("Halted"), None, "patch"),
        ("Halted", known("Halted"), Some("Running"), "delete"),
        ("Once", known("Halted"), None, "create"),
        ("Once", known("Once"), None, ""),
        ("Once", known("Once"), Some("Failed"), ""),
    ] {
        let found = done(&machine(strategy, status.clone()), phase.map(instance));
        assert_eq!(found, expected, "{strategy} {status} {phase:?}");
    }
}

#[test]
fn a_failure_is_started_again_and_a_stop_for_another_instance_is_forgotten() {
    let failed = machine("RerunOnFailure", json!({"runStrategy": "RerunOnFailure"}));
    let observed = Observed { instance: Some(instance("Failed")), ..Observed::default() };
    let status = plan(&failed, &observed, at(0)).status.unwrap();
    assert_eq!(status["stateChangeRequests"], json!([{"action": "Start"}]));
    let requests = json!([{"action": "Stop", "uid": "other"}]);
    let stale = machine("Always", json!({"stateChangeRequests": requests}));
    assert_eq!(done(&stale, Some(instance("Running"))), "");
}

#[test]
fn a_machine_that_does_not_come_up_waits_longer_each_time() {
    let mut machine_now = machine("Always", json!({"runStrategy": "Always"}));
    let mut delays = Vec::new();
    for round in 0..7 {
        let mut instance = (*instance("Failed").value).clone();
        instance["metadata"]["uid"] = json!(format!("i{round}"));
        let observed =
            Observed { instance: Some(Arc::new(Object::new(instance))), ..Observed::default() };
        let status = plan(&machine_now, &observed, at(0)).status.unwrap();
        let after: Timestamp =
            text(&status["startFailure"]["retryAfterTimestamp"]).parse().unwrap();
        delays.push(after.as_second());
        machine_now = machine("Always", status);
        let plan = plan(&machine_now, &Observed::default(), at(0));
        assert!(plan.steps.is_empty() && plan.wake != Wake::OnChange);
        assert_eq!(plan.status.unwrap()["printableStatus"], "CrashLoopBackOff");
    }
    let bounds = [(10, 15), (40, 60), (90, 135), (160, 240), (250, 300), (300, 300), (300, 300)];
    for (delay, (least, most)) in delays.into_iter().zip(bounds) {
        assert!((least..=most).contains(&delay), "{delay} is not in {least}..={most}");
    }
}

#[test]
fn a_start_that_waits_comes_when_it_may() {
    let later = json!({"consecutiveFailCount": 1, "lastFailedVMIUID": "x",
        "retryAfterTimestamp": "1970-01-01T00:00:30Z"});
    for strategy in ["RerunOnFailure", "Once"] {
        for known in [
            json!({"startFailure": later}),
            json!({"startFailure": later,
            "runStrategy": "Halted"}),
        ] {
            let first = plan(&machine(strategy, known), &Observed::default(), at(0));
            assert!(first.steps.is_empty(), "{first}");
            let waits = machine(strategy, first.status.unwrap());
            let second = plan(&waits, &Observed::default(), at(40));
            assert!(second.to_string().contains("create"), "{strategy}: {second}");
            assert_eq!(second.status.unwrap()["runStrategy"], strategy);
        }
        let observed = Observed { is_restored: true, ..Observed::default() };
        let held = plan(&machine(strategy, json!({"runStrategy": "Halted"})), &observed, at(0));
        assert!(held.steps.is_empty(), "{held}");
        assert_eq!(done(&machine(strategy, held.status.unwrap()), None), "create");
    }
}

#[test]
fn who_starts_a_machine_himself_does_not_wait_for_former_failures() {
    let failed = json!({"consecutiveFailCount": 5, "lastFailedVMIUID": "x",
        "retryAfterTimestamp": "1970-01-01T00:05:00Z"});
    for strategy in ["Manual", "Halted"] {
        let known = json!({"startFailure": failed, "runStrategy": strategy});
        let status = plan(&machine(strategy, known), &Observed::default(), at(0)).status.unwrap();
        assert!(status["startFailure"].is_null(), "{status}");
    }
    let asked = json!({"startFailure": failed, "runStrategy": "Manual",
        "stateChangeRequests": [{"action": "Start"}]});
    assert_eq!(done(&machine("Manual", asked), None), "create");
}

#[test]
fn people_are_shown_the_first_that_fits() {
    let shown = |machine: &Object, instance: Option<Arc<Object>>| {
        let plan = plan(machine, &Observed { instance, ..Observed::default() }, at(0));
        plan.status.unwrap()["printableStatus"].clone()
    };
    let always = machine("Always", json!({"runStrategy": "Always"}));
    assert_eq!(shown(&always, None), "Starting");
    assert_eq!(shown(&always, Some(instance("Scheduled"))), "Starting");
    assert_eq!(shown(&always, Some(instance("Running"))), "Running");
    let halted = machine("Halted", json!({"runStrategy": "Halted"}));
    assert_eq!(shown(&halted, None), "Stopped");
}

/// A machine of such a template, with an instance that runs and was made of another.
fn changed(before: Value, after: Value) -> (Object, Arc<Object>) {
    let of = |spec: Value| {
        let mut made = (*machine("Always", json!({})).value).clone();
        made["spec"]["template"]["spec"] = spec;
        Object::new(made)
    };
    let mut running = make::instance(&of(before));
    running["status"] = json!({"phase": "Running"});
    (of(after), Arc::new(Object::new(running)))
}

/// What is patched of an instance, and why it would have to be made again.
fn follows(before: Value, after: Value) -> (Value, String) {
    let (machine, running) = changed(before, after);
    let observed = Observed { instance: Some(running), ..Observed::default() };
    let plan = plan(&machine, &observed, at(0));
    let patch = plan.steps.iter().find_map(|step| match step {
        reconcile::Step::Patch { patch, .. } => Some(patch["spec"].clone()),
        _ => None,
    });
    let status = plan.status.unwrap();
    let why = conditions::find(&status, "RestartRequired").map(|one| text(&one["message"]));
    (patch.unwrap_or_default(), why.unwrap_or_default().to_owned())
}

#[test]
fn what_cannot_change_while_it_runs_needs_a_restart() {
    let volumes = json!([{"name": "x", "dataVolume": {"name": "d", "hotpluggable": true}}]);
    let plugged = json!({"nodeSelector": {"a": "b"}, "volumes": volumes,
        "domain": {"devices": {"disks": [{"name": "x"}]}}});
    let (patch, why) = follows(json!({"domain": {}}), plugged);
    assert_eq!((&patch["volumes"], why.as_str()), (&volumes, ""), "it is plugged in");
    let (patch, why) =
        follows(json!({"domain": {}}), json!({"domain": {"machine": {"type": "x"}}}));
    assert_eq!(why, "a non-live-updatable field was changed in the template spec");
    assert_eq!(patch, Value::Null);
    let memory = |guest: &str| json!({"domain": {"memory": {"guest": guest}}});
    assert_eq!(follows(memory("1Gi"), memory("1024Mi")).1, "");
    let (patch, why) = follows(memory("1Gi"), memory("2Gi"));
    assert!(why.ends_with("Memory-hotplug is only available for migratable VMs"), "{why}");
    assert_eq!(patch, Value::Null);
}

#[test]
fn processors_come_while_a_machine_runs_as_far_as_it_has_room() {
    let cpu = |cpu: Value| json!({"domain": {"cpu": cpu}});
    let one = || cpu(json!({"cores": 1}));
    let (patch, why) = follows(one(), cpu(json!({"cores": 4})));
    assert_eq!((&patch["domain"]["cpu"]["cores"], why.as_str()), (&json!(4), ""));
    let (patch, why) = follows(one(), cpu(json!({"cores": 5})));
    assert!(why.starts_with("CPU sockets updated in template spec to a value higher"), "{why}");
    assert_eq!(patch, Value::Null);
    let (_, why) = follows(cpu(json!({"sockets": 2})), one());
    assert_eq!(why, "Reduction of CPU socket count requires a restart");
    let most = |sockets: u64| json!({"sockets": sockets, "maxSockets": 2});
    assert_eq!(follows(cpu(most(1)), cpu(most(2))).1, "");
    assert!(follows(cpu(most(1)), cpu(most(3))).1.contains("higher than what's available"));
    // What has grown once has no more room than it had.
    let (machine, running) = changed(one(), cpu(json!({"cores": 5})));
    let mut grown = (*running.value).clone();
    grown["spec"]["domain"]["cpu"]["cores"] = json!(4);
    assert!(make::needs_restart(&machine, &Object::new(grown)).is_some());
}

#[test]
fn networks_come_and_go_while_a_machine_runs_and_that_of_pods_stays() {
    let with = |networks: Value, address: &str| {
        let interfaces: Vec<Value> = list(&networks)
            .iter()
            .map(|network| json!({"name": network["name"], "macAddress": address}))
            .collect();
        let told = json!({"userData": "u", "networkData": networks.to_string()});
        json!({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks,
            "volumes": [{"name": "told", "cloudInitNoCloud": told}]})
    };
    let pods = json!({"name": "default", "pod": {}});
    let lan = json!({"name": "lan", "multus": {"networkName": "a"}});
    let (few, more) = (with(json!([pods]), "02"), with(json!([pods, lan]), "02"));
    for (before, after) in [(&few, &more), (&more, &few)] {
        let (patch, why) = follows(before.clone(), after.clone());
        assert_eq!((&patch["networks"], why.as_str()), (&after["networks"], ""));
        assert_eq!(patch["domain"]["devices"], after["domain"]["devices"]);
    }
    let elsewhere = json!({"name": "lan", "multus": {"networkName": "b"}});
    for other in [
        with(json!([lan]), "02"),
        with(json!([pods, lan]), "03"),
        with(json!([pods, elsewhere]), "02"),
    ] {
        let (patch, why) = follows(more.clone(), other);
        assert!(!why.is_empty() && patch.is_null(), "{patch}");
    }
}

#[test]
fn the_uuid_follows_from_the_name() {
    assert_eq!(make::uuid("vm"), make::uuid("vm"));
    assert_ne!(make::uuid("vm"), make::uuid("vm2"));
    assert_eq!(&make::uuid("vm")[14..15], "5");
}
