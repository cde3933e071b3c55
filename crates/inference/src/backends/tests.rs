//! Commands before and after, as data.

use serde_json::{Value, json};

use super::*;

fn place(role: Role, deployer: Deployer<'_>) -> Place<'_> {
    static MP: LazyLock<Value> =
        LazyLock::new(|| json!({"nvidia.com/vllm-distributed-executor-backend": "MP"}));
    let (ssh_secret, wait_script) = ("mpi-run-ssh-secret", "g-wait-leader-script");
    Place { nodes: 2, role, deployer, annotations: &MP, ssh_secret, wait_script }
}

fn python(module: &str, args: &[&str], gpus: i64) -> Value {
    json!({"name": "main", "image": "i", "command": ["python3", "-m", module], "args": args,
        "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}},
        "livenessProbe": {}, "readinessProbe": {}, "startupProbe": {}})
}

fn rewritten(framework: Framework, container: &Value, place: &Place<'_>) -> (Value, Value) {
    let (mut container, mut pod) = (container.clone(), json!({}));
    rewrite(framework, &mut container, &mut pod, place).expect("rewritten");
    (container, pod)
}

fn arguments(container: &Value) -> String {
    list(&container["args"]).iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn sglang_joins_its_leader() {
    let shell = json!({"command": ["/bin/sh", "-c"],
        "args": ["cd /w && python3 -m dynamo.sglang --model m | tee log"]});
    let leader = place(Role::Leader, Deployer::LeaderWorkerSet);
    let (made, _) = rewritten(Framework::Sglang, &shell, &leader);
    let expected = "cd /w && python3 -m dynamo.sglang --dist-init-addr $(LWS_LEADER_ADDRESS):29500 \
                    --nnodes 2 --node-rank 0 --model m | tee log";
    assert_eq!(made["args"], json!([expected]));
    // A name that comes again later takes the flags.
    let twice = json!({"command": ["sh", "-c"],
        "args": ["python3 -m dynamo.sglang --model my-sglang-model x"]});
    let (made, _) = rewritten(Framework::Sglang, &twice, &leader);
    assert!(arguments(&made).contains("--model my-sglang-model --dist-init-addr"), "{made}");
    let worker = place(Role::Worker, Deployer::Grove("decode"));
    let (made, _) =
        rewritten(Framework::Sglang, &python("dynamo.sglang", &["--model", "m"], 0), &worker);
    assert_eq!(made["command"], json!(["sh", "-c"]));
    let expected = "exec python3 -m dynamo.sglang --model m --dist-init-addr $(GROVE_PCSG_NAME)-\
                    $(GROVE_PCSG_INDEX)-decode-ldr-0.$(GROVE_HEADLESS_SERVICE):29500 --nnodes 2 \
                    --node-rank $((GROVE_PCLQ_POD_INDEX + 1))";
    assert_eq!(made["args"], json!([expected]));
    assert!(made.get("livenessProbe").is_none() && made.get("startupProbe").is_none());
}

#[test]
fn vllm_runs_as_processes_of_its_own() {
    let container = python("dynamo.vllm", &["--tensor-parallel-size", "16"], 8);
    let leader = place(Role::Leader, Deployer::LeaderWorkerSet);
    let (made, pod) = rewritten(Framework::Vllm, &container, &leader);
    let common = "--distributed-executor-backend mp --nnodes 2 --master-addr \
                  $(LWS_LEADER_ADDRESS) --master-port 29500";
    assert!(arguments(&made).ends_with(&format!("{common} --node-rank 0")), "{made}");
    assert_eq!(list(&made["args"]).len(), 12);
    assert!(pod.get("initContainers").is_none());
    let worker = place(Role::Worker, Deployer::LeaderWorkerSet);
    let (made, pod) = rewritten(Framework::Vllm, &container, &worker);
    let end = format!("{common} --node-rank $(LWS_WORKER_INDEX) --headless");
    assert!(arguments(&made).ends_with(&end), "{made}");
    let waits = &pod["initContainers"][0];
    assert_eq!(waits["name"], "wait-for-leader-mp");
    let expected = "export LEADER_HOST=\"${LWS_LEADER_ADDRESS}\" LEADER_PORT=\"29500\" && \
                    exec python3 /scripts/wait-for-leader.py";
    assert_eq!(waits["args"], json!([expected]));
    assert_eq!(made["env"][0]["name"], "VLLM_NIXL_SIDE_CHANNEL_HOST");
    assert!(made.get("readinessProbe").is_none());
}

#[test]
fn vllm_runs_on_ray_where_it_is_asked_to() {
    let annotations = json!({"nvidia.com/vllm-distributed-executor-backend": "ray"});
    let at = |role| Place { annotations: &annotations, ..place(role, Deployer::LeaderWorkerSet) };
    let container = python("dynamo.vllm", &["--tensor-parallel-size", "16"], 8);
    let (made, _) = rewritten(Framework::Vllm, &container, &at(Role::Leader));
    let expected = "ray start --head --port=6379 && python3 -m dynamo.vllm --tensor-parallel-size \
                    16 --distributed-executor-backend ray";
    assert_eq!(made["args"], json!([expected]));
    let (made, _) = rewritten(Framework::Vllm, &container, &at(Role::Worker));
    assert_eq!(made["args"], json!(["ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"]));
    let origin = |version: &str| json!({"nvidia.com/dynamo-operator-origin-version": version});
    for (version, processes) in [("0.9.0", false), ("1.0.0", true), ("1.5.0", true), ("", false)] {
        assert_eq!(vllm_uses_processes(&origin(version)), processes, "{version}");
    }
}

fn vllm_uses_processes(annotations: &Value) -> bool {
    let at = Place { annotations, ..place(Role::Leader, Deployer::LeaderWorkerSet) };
    let container = python("dynamo.vllm", &["--tensor-parallel-size", "16"], 8);
    arguments(&rewritten(Framework::Vllm, &container, &at).0).contains("backend mp")
}

#[test]
fn vllm_shares_its_data() {
    let container = python("dynamo.vllm", &["--data-parallel-size", "16"], 8);
    let leader = place(Role::Leader, Deployer::LeaderWorkerSet);
    let (made, _) = rewritten(Framework::Vllm, &container, &leader);
    let expected = "--data-parallel-size 16 --data-parallel-hybrid-lb --data-parallel-size-local 8 \
                    --data-parallel-start-rank 0 --data-parallel-address $(LWS_LEADER_ADDRESS) \
                    --data-parallel-rpc-port 13445";
    assert_eq!(arguments(&made), expected);
    let worker = place(Role::Worker, Deployer::LeaderWorkerSet);
    let (made, _) = rewritten(Framework::Vllm, &container, &worker);
    assert_eq!(made["command"], json!(["sh", "-c"]));
    let begins = "exec python3 -m dynamo.vllm --data-parallel-size 16 --data-parallel-hybrid-lb \
                  --data-parallel-size-local 8 --data-parallel-start-rank \
                  $(( 8 * $(LWS_WORKER_INDEX) )) ";
    assert!(arguments(&made).starts_with(begins), "{made}");
}

#[test]
fn trtllm_starts_everything_from_its_leader() {
    let container = python("dynamo.trtllm", &["--model", "m"], 4);
    let leader = place(Role::Leader, Deployer::LeaderWorkerSet);
    let (made, pod) = rewritten(Framework::Trtllm, &container, &leader);
    let line = arguments(&made);
    let hosts = "-n 8 -H $(LWS_LEADER_ADDRESS),$(echo \"$LWS_LEADER_ADDRESS\" | \
                 sed 's/\\./-1\\./') --mca pml ob1";
    assert!(line.contains(hosts), "{line}");
    assert!(line.ends_with("bash -c 'trtllm-llmapi-launch python3 -m dynamo.trtllm --model m'"));
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mpi-run-ssh-secret");
    let worker = place(Role::Worker, Deployer::LeaderWorkerSet);
    let (made, _) = rewritten(Framework::Trtllm, &container, &worker);
    assert_eq!(made["readinessProbe"]["tcpSocket"]["port"], 2_222);
    assert!(made.get("livenessProbe").is_none());
    assert!(arguments(&made).ends_with("exec /usr/sbin/sshd -D -f $HOME/.ssh/sshd_config"));
}

#[test]
fn an_engine_is_known_by_its_command_and_must_be_the_one_that_was_said() {
    let container = python("dynamo.vllm", &[], 0);
    assert_eq!(choose(&container, ""), Ok(Some(Framework::Vllm)));
    assert_eq!(choose(&json!({}), "trtllm"), Ok(Some(Framework::Trtllm)));
    assert_eq!(choose(&python("dynamo.mocker", &[], 0), ""), Ok(None));
    let expected = "backend framework mismatch: detected \"vllm\" from command but explicitly \
                    configured as \"sglang\"";
    assert_eq!(choose(&container, "sglang"), Err(expected.to_owned()));
    let both = json!({"command": ["sh", "-c"],
        "args": ["python3 -m dynamo.vllm & python3 -m dynamo.sglang"]});
    assert!(detect(&both).is_err());
}

#[test]
fn words_are_quoted_as_a_shell_reads_them_back() {
    let cases = [
        ("plain", "plain"),
        ("a b", "\"a b\""),
        ("$HOME", "\"\\$HOME\""),
        ("{\"k\":1}", "\"{\\\"k\\\":1}\""),
    ];
    for (word, expected) in cases {
        assert_eq!(quoted(&[word]), expected);
    }
}
