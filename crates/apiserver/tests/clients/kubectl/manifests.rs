//! The objects that the tests of kubectl are about.

pub const SETTINGS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {a: '1'}
";

pub const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: nginx}
";

/// A node and two pods, one of which is on it and ready.
pub const NODE_AND_PODS: &str = "
apiVersion: v1
kind: Node
metadata: {name: one, labels: {disk: fast}}
spec: {podCIDR: 10.0.0.0/24}
---
apiVersion: v1
kind: Pod
metadata: {name: left, labels: {app: web, side: left}}
spec:
  nodeName: one
  containers:
  - name: main
    image: nginx
    env: [{name: MODE, value: fast}]
    resources: {requests: {cpu: 100m}}
---
apiVersion: v1
kind: Pod
metadata: {name: right, labels: {app: web, side: right}}
spec:
  containers:
  - {name: main, image: busybox}
";

/// What a kubelet would report of a pod that is up.
pub const READY: &str = r#"{"status": {
    "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
    "startTime": "2030-01-01T00:00:00Z",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "main", "image": "nginx", "imageID": "", "ready": true,
        "restartCount": 3, "started": true,
        "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}}}]}}"#;
