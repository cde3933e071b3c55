//! TensorRT-LLM over many pods: the leader starts everything through MPI, over SSH.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::commands::starts_python;
use super::{Place, Role, gpus, quoted, words};
use crate::value::{list, text, upsert};

const SSH_PORT: u16 = 2_222;
/// Where the keys are.
const KEYS: &str = "/ssh-pk";

/// What an engine may need of its leader's environment.
const PASSED: [&str; 21] = [
    "CPATH",
    "CUDA_VISIBLE_DEVICES",
    "HF_DATASETS_CACHE",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_TOKEN",
    "HOME",
    "HUGGING_FACE_HUB_TOKEN",
    "LD_LIBRARY_PATH",
    "MODEL_PATH",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "PATH",
    "PYTHONPATH",
    "TENSORRT_LLM_CACHE_DIR",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_CACHE",
    "TRITON_PTXAS_PATH",
    "TRTLLM_USE_UCX_KVCACHE",
    "USER",
];

pub fn rewrite(container: &mut Value, pod: &mut Value, place: &Place<'_>) {
    let line = match place.role {
        Role::Main => return,
        Role::Leader => lead(container, place),
        Role::Worker => serve(),
    };
    container["command"] = json!(["/bin/sh", "-c"]);
    container["args"] = json!([line]);
    let secret = place.ssh_secret;
    let mount = json!({"name": secret, "mountPath": KEYS, "readOnly": true});
    upsert(&mut container["volumeMounts"], "name", mount);
    let volume = json!({"name": secret, "secret": {"secretName": secret, "defaultMode": 0o644}});
    upsert(&mut pod["volumes"], "name", volume);
    let keep = json!({"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "1"});
    upsert(&mut container["env"], "name", keep);
    if place.role == Role::Worker {
        if let Some(container) = container.as_object_mut() {
            container.remove("livenessProbe");
            container.remove("startupProbe");
        }
        container["readinessProbe"] = json!({"tcpSocket": {"port": SSH_PORT},
            "initialDelaySeconds": 20, "periodSeconds": 20, "timeoutSeconds": 5,
            "failureThreshold": 10});
    }
}

/// Puts the keys where SSH looks for them.
fn keys() -> String {
    format!(
        "mkdir -p $HOME/.ssh && cp {KEYS}/private.key $HOME/.ssh/id_rsa && \
         cp {KEYS}/private.key.pub $HOME/.ssh/id_rsa.pub && \
         cp {KEYS}/private.key.pub $HOME/.ssh/authorized_keys && \
         chmod 600 $HOME/.ssh/id_rsa $HOME/.ssh/authorized_keys && \
         chmod 644 $HOME/.ssh/id_rsa.pub"
    )
}

fn serve() -> String {
    let mut line = keys();
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let file = format!("$HOME/.ssh/ssh_host_{kind}_key");
        line.push_str(&format!(" && ssh-keygen -q -t {kind} -f {file} -N ''"));
    }
    let config = format!(
        "Port {SSH_PORT}\\nHostKey '$HOME'/.ssh/ssh_host_rsa_key\\n\
         HostKey '$HOME'/.ssh/ssh_host_ecdsa_key\\nHostKey '$HOME'/.ssh/ssh_host_ed25519_key\\n\
         PidFile '$HOME'/.ssh/sshd.pid\\nAuthorizedKeysFile '$HOME'/.ssh/authorized_keys\\n\
         PasswordAuthentication no\\nPermitRootLogin yes\\nStrictModes no\\n"
    );
    line.push_str(&format!(
        " && printf '{config}' > $HOME/.ssh/sshd_config && mkdir -p /run/sshd && \
         exec /usr/sbin/sshd -D -f $HOME/.ssh/sshd_config"
    ));
    line
}

fn lead(container: &Value, place: &Place<'_>) -> String {
    let mut line = keys();
    let hosts = place.deployer.hosts(place.nodes);
    if place.deployer.waits_for_names() {
        let waits = hosts[1..].join(" ");
        line.push_str(&format!(
            " && for host in {waits}; do n=0; \
             until getent hosts $host > /dev/null || [ $n -ge 300 ]; do n=$((n+1)); sleep 1; done; \
             done"
        ));
    }
    let processes = place.nodes * gpus(container);
    let names = list(&container["env"]).iter().map(|one| text(&one["name"]));
    let passed: BTreeSet<&str> = names.chain(PASSED).collect();
    let passed: Vec<String> = passed.into_iter().map(|name| format!("-x {name}")).collect();
    line.push_str(&format!(
        " && mpirun $([ \"$(id -u)\" = \"0\" ] && echo --allow-run-as-root) --oversubscribe \
         -n {processes} -H {} --mca pml ob1 --mca plm_rsh_args \"-p {SSH_PORT} \
         -o StrictHostKeyChecking=no -i $HOME/.ssh/id_rsa\" {} \
         bash -c 'trtllm-llmapi-launch {}'",
        hosts.join(","),
        passed.join(" "),
        original(container),
    ));
    line
}

/// The command that the user wrote.
fn original(container: &Value) -> String {
    if starts_python(container) {
        return quoted(&words(container));
    }
    let joined = |part: &Value| list(part).iter().map(text).collect::<Vec<&str>>().join(" ");
    match joined(&container["args"]) {
        empty if empty.is_empty() => joined(&container["command"]),
        line => line,
    }
}
