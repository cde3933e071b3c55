//! Graphs of real Dynamo in other forms: with adapters that are loaded while it serves, found
//! through etcd and talking over NATS, and with replicas that are many pods; and a request whose
//! profiler really runs.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tokio::time::Instant;

use crate::inference::{Dynamo, ask};
use crate::node::Machine;

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
const ECHO_WORKER: &str = include_str!("../dynamo/echo_worker.py");
const ENGINE: &str = include_str!("../dynamo/engine.py");

/// Waits until what a frontend lists of its models holds.
#[track_caller]
fn until_models(address: &str, holds: impl Fn(&str) -> bool) {
    let began = Instant::now();
    loop {
        match ask(address, "GET", "/v1/models", "") {
            Ok((200, models)) if holds(&models) => return,
            other => assert!(began.elapsed() < PATIENCE, "{other:?}"),
        }
        std::thread::sleep(LOOK);
    }
}

const ADAPTER: &str = "
apiVersion: nvidia.com/v1alpha1
kind: DynamoModel
metadata: {name: adapter}
spec: {modelName: my-lora, baseModelName: tiny, modelType: lora, source: {uri: 'file:///a/b'}}
";

#[test]
fn an_adapter_is_loaded_onto_every_worker_and_taken_off_again() {
    let dynamo = Dynamo::start();
    dynamo.machine.sandbox.write("echo.py", ECHO_WORKER);
    let script = dynamo.machine.sandbox.work().join("echo.py");
    let words = format!("{}, {}, tiny", script.display(), dynamo.model.display());
    let mut yaml = dynamo.graph_with("", "l", ", {name: DYN_LORA_ENABLED, value: 'true'}");
    yaml.push_str(&dynamo.worker("Worker", "worker", &words));
    dynamo.apply(&yaml);
    // Nobody needs to wait for the servers of a model with telling that it has adapters.
    dynamo.apply(ADAPTER);
    dynamo.until_state("l", "successful");
    let ready = "get dm adapter -o jsonpath={.status.readyEndpoints}";
    dynamo.until(ready, |ready| ready == "1");
    let address = dynamo.frontend("l");
    until_models(&address, |models| models.contains("my-lora"));
    let said = dynamo.until_answered_by("my-lora", &address);
    assert!(said.contains("\"model\":\"my-lora\""), "{said}");
    // One more worker gets it as well, though nobody touches the model.
    dynamo.apply(&format!("{yaml}    replicas: 2\n"));
    dynamo.until(ready, |ready| ready == "2");
    let condition = "{.status.conditions[?(@.type=='EndpointsReady')].reason}";
    let reason = format!("get dm adapter -o jsonpath={condition}");
    dynamo.until(&reason, |reason| reason == "AllEndpointsReady");
    dynamo.machine.kubectl(&["delete", "dm", "adapter"], "");
    until_models(&address, |models| !models.contains("my-lora") && models.contains("tiny"));
}

#[test]
fn a_graph_is_found_through_etcd_and_talks_over_nats_that_are_started_for_it() {
    let dynamo = Dynamo::start();
    let asks = "inference.setpoint.dev/infrastructure: 'etcd,nats', \
                nvidia.com/dynamo-discovery-backend: etcd";
    let planes = ", {name: DYN_REQUEST_PLANE, value: nats}, {name: DYN_EVENT_PLANE, value: nats}";
    let model = dynamo.model.display();
    let words = format!(
        "-m, dynamo.mocker, --model-path, {model}, --model-name, tiny, --speedup-ratio, '0', \
         --num-gpu-blocks-override, '1024'"
    );
    let worker = dynamo.worker("Decode", "decode", &words);
    dynamo.apply(&format!("{}{worker}", dynamo.graph_with(asks, "e", planes)));
    dynamo.until_state("e", "successful");
    let address = dynamo.frontend("e");
    let body = dynamo.until_answered(&address);
    assert!(body.contains("\"object\":\"chat.completion\""), "{body}");
    let machine = &dynamo.machine;
    // The API of the cluster has no part in it: nothing is published there, and nobody may.
    assert_eq!(machine.kubectl(&["get", "dwm", "-o", "name"], ""), "");
    let services = machine.kubectl(&["get", "service", "-o", "name"], "");
    let expected = [
        "service/dynamo-model-8950abfd",
        "service/e-etcd-server",
        "service/e-frontend",
        "service/e-nats-server",
        "service/kubernetes",
    ];
    assert_eq!(services.lines().collect::<Vec<_>>(), expected);
    let accounts = machine.kubectl(&["get", "sa", "-o", "name"], "");
    assert!(!accounts.contains("k8s-service-discovery"), "{accounts}");
    machine.kubectl(&["delete", "dgd", "e"], "");
    dynamo.until("get dcd,deploy,pods -o name", str::is_empty);
}

#[test]
fn a_replica_of_many_pods_serves_once_its_leader_has_its_workers() {
    let dynamo = Dynamo::start();
    dynamo.machine.sandbox.write("engine.py", ENGINE);
    let script = dynamo.machine.sandbox.work().join("engine.py");
    let (script, model) = (script.display(), dynamo.model.display());
    let words = format!("{script}, -m, dynamo.sglang, --model-path, {model}, --model-name, tiny");
    let mut yaml = dynamo.graph_with("", "m", "");
    yaml.push_str(&dynamo.worker("Decode", "decode", &words));
    yaml.push_str("    multinode: {nodeCount: 2}\n");
    dynamo.apply(&yaml);
    dynamo.until_state("m", "successful");
    dynamo.until_answered(&dynamo.frontend("m"));
    let kind = "get dgd m -o jsonpath={.status.components.Decode.componentKind}";
    dynamo.until(kind, |kind| kind == "LeaderWorkerSet");
    let machine = &dynamo.machine;
    let of = |role: &str| {
        let select = format!("role={role},nvidia.com/dynamo-component=Decode");
        machine.kubectl(&["logs", "-l", &select, "--tail=-1"], "")
    };
    assert!(of("leader").contains("joined by 1"), "{}", of("leader"));
    let set = machine.kubectl(&["get", "lws", "-o", "jsonpath={.items[0].metadata.name}"], "");
    let joined = format!("1 of 2 joined {set}-0.{set}.default");
    assert!(of("worker").contains(&joined), "{joined} in {}", of("worker"));
    let script = machine.kubectl(&["get", "cm", "m-wait-leader-script", "-o", "name"], "");
    assert_eq!(script, "configmap/m-wait-leader-script");
}

const OLDER: &str = "
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentRequest
metadata: {name: older}
spec:
  model: tiny
  backend: vllm
  profilingConfig: {profilerImage: 'local/profiler:1.0.0', config: {sla: {ttft: 200}}}
";

/// A profiler that needs no GPU: it says how far it is, and leaves a graph.
const PROFILER: &str = r#"#!/bin/sh
set -e
printf 'phase: SweepingDecode\nmessage: "half of it"\n' > /data/profiler_status.yaml
until [ -e "$GO" ]; do sleep 0.1; done
cat > /data/final_config.yaml <<END
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: any}
spec: {components: [{name: Frontend, type: frontend}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: curves}
data: {asked: '$*'}
END
printf 'status: success\nphase: Done\nmessage: measured\n' > /data/profiler_status.yaml
"#;

#[test]
fn a_profiler_that_runs_beside_its_relay_ends_in_a_graph() {
    let machine = Machine::start();
    machine.until("get validatingwebhookconfigurations -o name", |all| {
        all.contains("dynamo-operator-validating")
    });
    // The older version is known, too.
    let older = machine.run(&["create", "-f", "-", "--dry-run=server", "-o", "name"], OLDER);
    let warning = "v1alpha1 DynamoGraphDeploymentRequest is deprecated";
    assert!(older.stderr.contains(warning), "{older:?}");
    // The profiler is started as `python`; here that is a script of ours.
    let tools = machine.sandbox.work().join("tools");
    std::fs::create_dir_all(&tools).expect("made");
    let python = tools.join("python");
    std::fs::write(&python, PROFILER).expect("written");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("allowed");
    let go = machine.sandbox.work().join("go");
    let path = std::env::var("PATH").unwrap_or_default();
    let yaml = format!(
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\n\
         metadata: {{name: r}}\nspec:\n  model: tiny\n  backend: vllm\n  autoApply: false\n  \
         image: 'local/profiler:1.0.0'\n  \
         hardware: {{gpuSku: l4, vramMb: 24000, numGpusPerNode: 1}}\n  \
         overrides: {{profilingJob: {{template: {{spec: {{\n    \
         securityContext: {{runAsNonRoot: false, runAsUser: 0, runAsGroup: 0, fsGroup: 0}},\n    \
         volumes: [{{name: workspace, emptyDir: {{}}}}],\n    \
         containers: [{{name: profiler,\n      \
         env: [{{name: PATH, value: '{}:{path}'}}, {{name: GO, value: '{}'}}],\n      \
         volumeMounts: [{{name: workspace, mountPath: /workspace}}]}}]}}}}}}}}\n",
        tools.display(),
        go.display(),
    );
    machine.kubectl(&["create", "-f", "-"], &yaml);
    let status = |field: &str| format!("get dgdr r -o jsonpath={{.status.{field}}}");
    machine.until(&status("profilingPhase"), |phase| phase == "SweepingDecode");
    let message = "conditions[?(@.type=='Profiling')].message";
    machine.until(&status(message), |message| message == "half of it");
    std::fs::write(&go, "").expect("written");
    machine.until(&status("phase"), |phase| phase == "Ready");
    let name = status("profilingResults.selectedConfig.metadata.name");
    machine.until(&name, |name| name == "r-dgd");
    // What was left besides is there, and the whole request was told to the profiler.
    let asked = machine.kubectl(&["get", "cm", "curves", "-o", "jsonpath={.data.asked}"], "");
    assert!(asked.starts_with("-m dynamo.profiler --config {"), "{asked}");
    assert!(asked.contains("\"model\":\"tiny\""), "{asked}");
    assert!(asked.ends_with("--output-dir /data"), "{asked}");
    // Whoever asks in the older version sees the same.
    let older = "dynamographdeploymentrequests.v1alpha1.nvidia.com";
    let said = machine.kubectl(&["get", older, "r", "-o", "jsonpath={.status.state}"], "");
    assert_eq!(said, "Ready");
}
