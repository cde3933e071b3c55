//! LeaderWorkerSets, as users make them: groups of real processes that find their leader by name.

use crate::node::Machine;

/// Leaders answer; workers ask their leader, say what they heard, and stay.
const SET: &str = r#"
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: s}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 3
    leaderTemplate:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: c
          image: any
          command: [python3, -c]
          args:
          - |
            import http.server, os
            class Answer(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(os.environ['HOSTNAME'].encode())
            http.server.ThreadingHTTPServer(('', 8080), Answer).serve_forever()
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    workerTemplate:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: c
          image: any
          env: [{name: LEADER, value: 'http://$(LWS_LEADER_ADDRESS):8080'}]
          command: [python3, -u, -c]
          args:
          - |
            import os, time, urllib.request
            while True:
                try:
                    heard = urllib.request.urlopen(os.environ['LEADER'], timeout=2).read().decode()
                    break
                except OSError:
                    time.sleep(0.1)
            index, size = os.environ['LWS_WORKER_INDEX'], os.environ['LWS_GROUP_SIZE']
            print(f'{index} of {size} heard {heard}')
            time.sleep(1000)
"#;

fn uids(machine: &Machine) -> Vec<String> {
    let path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.uid}{\"\\n\"}{end}";
    let all = machine.kubectl(&["get", "pods", "-o", path], "");
    all.lines().map(str::to_owned).collect()
}

#[test]
fn workers_find_their_leader_by_name_and_a_group_lives_and_dies_together() {
    let machine = Machine::start();
    machine.until("get mutatingwebhookconfigurations -o name", |all| {
        all.contains("lws-mutating-webhook-configuration")
    });
    machine.until("get crd -o name", |all| all.contains("leaderworkersets"));
    machine.kubectl(&["apply", "-f", "-"], SET);
    machine.kubectl(&["wait", "lws/s", "--for=condition=Available", "--timeout=60s"], "");
    for worker in 1..3 {
        let heard = format!("{worker} of 3 heard s-0");
        machine.until(&format!("logs s-0-{worker}"), |log| log == heard);
    }
    let columns = machine.kubectl(&["get", "lws"], "");
    let head = "NAME   READY   DESIRED   UP-TO-DATE   AGE\ns      1       1         1 ";
    assert!(columns.starts_with(head), "{columns}");
    // One of them goes, and all are new.
    let before = uids(&machine);
    assert_eq!(before.len(), 3, "{before:?}");
    machine.kubectl(&["delete", "pod", "s-0-2", "--wait=false"], "");
    machine.until("get pods -o jsonpath={.items[*].metadata.uid}", |now| {
        let now: Vec<&str> = now.split_whitespace().collect();
        now.len() == 3 && before.iter().all(|one| now.iter().all(|uid| !one.ends_with(uid)))
    });
    machine.kubectl(&["wait", "lws/s", "--for=condition=Available", "--timeout=60s"], "");
    machine.until("logs s-0-2", |log| log == "2 of 3 heard s-0");
    machine.kubectl(&["scale", "lws/s", "--replicas=2"], "");
    machine.until("logs s-1-1", |log| log == "1 of 3 heard s-1");
    machine.until("get lws s -o jsonpath={.status.readyReplicas}", |ready| ready == "2");
    machine.kubectl(&["delete", "lws", "s"], "");
    machine.until(
        "get statefulset,service,pod -l leaderworkerset.sigs.k8s.io/name -o name",
        str::is_empty,
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let machine = Machine::start();
    machine.until("get validatingwebhookconfigurations -o name", |all| {
        all.contains("lws-validating-webhook-configuration")
    });
    let both = SET.replace(
        "  replicas: 1",
        "  replicas: 1\n  rolloutStrategy: \
        {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 0, maxSurge: 0}}",
    );
    let ended = machine.run(&["create", "-f", "-"], &both);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("must not be 0 when `maxSurge` is 0"), "{ended:?}");
}
