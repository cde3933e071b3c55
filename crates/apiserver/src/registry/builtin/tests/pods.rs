//! New pods: defaults and faults.

use super::{check, check_created};

#[test]
fn a_pod_gets_its_defaults() {
    check_created(
        "/Pod",
        r#"
        => spec.restartPolicy = "Always" ; spec.dnsPolicy = "ClusterFirst" ; spec.schedulerName = "default-scheduler" ; spec.terminationGracePeriodSeconds = 30 ; spec.securityContext = {} ; spec.enableServiceLinks = true
        => spec.containers[0].imagePullPolicy = "IfNotPresent" ; spec.containers[0].terminationMessagePath = "/dev/termination-log" ; spec.containers[0].terminationMessagePolicy = "File"
        => status.phase = "Pending" ; status.qosClass = "BestEffort" ; metadata.generation = 1
        status = {"phase": "Running", "podIP": "1.2.3.4"} => status = {"phase": "Pending", "qosClass": "BestEffort"}
        spec.containers[0].image = "nginx" => spec.containers[0].imagePullPolicy = "Always"
        spec.containers[0].image = "nginx:latest" => spec.containers[0].imagePullPolicy = "Always"
        spec.containers[0].image = "host:5000/nginx" => spec.containers[0].imagePullPolicy = "Always"
        spec.containers[0].image = "nginx@sha256:00" => spec.containers[0].imagePullPolicy = "IfNotPresent"
        spec.containers[0].ports = [{"containerPort": 80}] => spec.containers[0].ports[0].protocol = "TCP"
        spec.hostNetwork = true ; spec.containers[0].ports = [{"containerPort": 80}] => spec.containers[0].ports[0].hostPort = 80
        spec.containers[0].readinessProbe = {"httpGet": {"port": 80}} => spec.containers[0].readinessProbe = {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
        spec.containers[0].env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}] => spec.containers[0].env[0].valueFrom.fieldRef.apiVersion = "v1"
        spec.containers[0].resources = {"limits": {"cpu": "1"}} => spec.containers[0].resources.requests = {"cpu": "1"} ; status.qosClass = "Burstable"
        spec.containers[0].resources = {"limits": {"cpu": "1", "memory": "1Gi"}} => status.qosClass = "Guaranteed"
        spec.serviceAccount = "s" => spec.serviceAccountName = "s"
        spec.serviceAccountName = "s" => spec.serviceAccount = "s"
        spec.volumes = [{"name": "v"}] => spec.volumes[0].emptyDir = {}
        spec.volumes = [{"name": "v", "configMap": {"name": "c"}}] => spec.volumes[0].configMap.defaultMode = 420
        spec.volumes = [{"name": "v", "hostPath": {"path": "/x"}}] => spec.volumes[0].hostPath.type = ""
        spec.volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}] => spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds = 3600 ; spec.volumes[0].projected.defaultMode = 420
        spec.schedulingGates = [{"name": "g"}] => status.conditions[0].reason = "SchedulingGated" ; status.conditions[0].type = "PodScheduled"
        metadata.labels = {"v": "1"} ; spec.topologySpreadConstraints = [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": ["v"]}] => spec.topologySpreadConstraints[0].labelSelector = {"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]}
        "#,
    );
}

#[test]
fn containers_are_checked() {
    check(
        "/Pod",
        r#"
        => ok
        spec.containers = [] => spec.containers: Required value
        spec.containers[0].name = "" => spec.containers[0].name: Required value
        spec.containers[0].name = "A" => spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label...
        spec.containers[0].image = "" => spec.containers[0].image: Required value
        spec.containers[0].image = " nginx" => spec.containers[0].image: Invalid value: " nginx": must not have leading or trailing whitespace
        spec.containers[1] = {"name": "c", "image": "i"} => spec.containers[1].name: Duplicate value: "c"
        spec.initContainers = [{"name": "c", "image": "i"}] => spec.initContainers[0].name: Duplicate value: "c"
        spec.containers[0].imagePullPolicy = "Sometimes" => spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"
        spec.containers[0].terminationMessagePolicy = "X" => spec.containers[0].terminationMessagePolicy: Unsupported value: "X": supported values: "FallbackToLogsOnError", "File"
        spec.initContainers = [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}] => spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
        spec.initContainers = [{"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}] => ok
        spec.ephemeralContainers = [{"name": "e", "image": "i"}] => spec.ephemeralContainers: Forbidden: cannot be set on create
        spec.restartPolicy = "Once" => spec.restartPolicy: Unsupported value: "Once": supported values: "Always", "Never", "OnFailure"
        spec.dnsPolicy = "X" => spec.dnsPolicy: Unsupported value: "X": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"
        spec.dnsPolicy = "None" => spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None
        spec.activeDeadlineSeconds = 0 => spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive
        spec.nodeName = "n" ; spec.schedulingGates = [{"name": "g"}] => spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared
        spec.schedulingGates = [{"name": "g"}, {"name": "g"}] => spec.schedulingGates[1]: Duplicate value: "g"
        spec.hostAliases = [{"ip": "1.2.3", "hostnames": ["a"]}] => spec.hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        metadata.annotations{controller.kubernetes.io/pod-deletion-cost} = "x" => metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit integer
        "#,
    );
}

#[test]
fn ports_and_environment_are_checked() {
    check(
        "/Pod",
        r#"
        spec.containers[0].ports = [{"containerPort": 0}] => spec.containers[0].ports[0].containerPort: Required value
        spec.containers[0].ports = [{"containerPort": 65536}] => spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive
        spec.containers[0].ports = [{"containerPort": 80, "protocol": "X"}] => spec.containers[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
        spec.containers[0].ports = [{"containerPort": 80, "name": "80"}] => spec.containers[0].ports[0].name: Invalid value: "80": must contain at least one letter (a-z)
        spec.containers[0].ports = [{"containerPort": 80, "name": "a-very-long-name"}] => spec.containers[0].ports[0].name: Invalid value: "a-very-long-name": must be no more than 15 characters
        spec.containers[0].ports = [{"containerPort": 80, "name": "a--b-"}] => spec.containers[0].ports[0].name: Invalid value: "a--b-": must not contain consecutive hyphens && spec.containers[0].ports[0].name: Invalid value: "a--b-": must not begin or end with a hyphen
        spec.containers[0].ports = [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}] => spec.containers[0].ports[1].name: Duplicate value: "a"
        spec.containers[0].ports = [{"containerPort": 80, "hostPort": 8}, {"containerPort": 81, "hostPort": 8}] => spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//8"
        spec.hostNetwork = true ; spec.containers[0].ports = [{"containerPort": 80, "hostPort": 81}] => spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true
        spec.containers[0].env = [{"name": ""}] => spec.containers[0].env[0].name: Required value
        spec.containers[0].env = [{"name": "a=b"}] => spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
        spec.containers[0].env = [{"name": "A", "valueFrom": {}}] => spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`...
        spec.containers[0].env = [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}] => spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty
        spec.containers[0].env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}] => spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value
        spec.containers[0].env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.restartPolicy"}}}] => spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.restartPolicy": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"
        spec.containers[0].env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}] => ok
        spec.containers[0].env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "nope"}}}] => spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "nope": error converting fieldPath: field label not supported: nope
        spec.containers[0].env = [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}] => spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"
        spec.containers[0].envFrom = [{}] => spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`
        "#,
    );
}

#[test]
fn volumes_and_mounts_are_checked() {
    check(
        "/Pod",
        r#"
        spec.containers[0].volumeMounts = [{"name": "v", "mountPath": "/x"}] => spec.containers[0].volumeMounts[0].name: Not found: "v"
        spec.volumes = [{"name": "v"}] ; spec.containers[0].volumeMounts = [{"name": "v", "mountPath": "/x"}] => ok
        spec.volumes = [{"name": "v"}] ; spec.containers[0].volumeMounts = [{"name": "v", "mountPath": ""}] => spec.containers[0].volumeMounts[0].mountPath: Required value
        spec.volumes = [{"name": "v"}] ; spec.containers[0].volumeMounts = [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}] => spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique
        spec.volumes = [{"name": "v"}] ; spec.containers[0].volumeMounts = [{"name": "v", "mountPath": "/x", "subPath": "../y"}] => spec.containers[0].volumeMounts.subPath: Invalid value: "../y": must not contain '..'
        spec.volumes = [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}] => spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type
        spec.volumes = [{"name": "v"}, {"name": "v"}] => spec.volumes[1].name: Duplicate value: "v"
        spec.volumes = [{"name": "V"}] => spec.volumes[0].name: Invalid value: "V": a lowercase RFC 1123 label...
        spec.volumes = [{"name": "v", "hostPath": {"path": ""}}] => spec.volumes[0].hostPath.path: Required value
        spec.volumes = [{"name": "v", "hostPath": {"path": "/a/../b"}}] => spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'
        spec.volumes = [{"name": "v", "secret": {}}] => spec.volumes[0].secret.secretName: Required value
        spec.volumes = [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}] => spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive
        spec.volumes = [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "/abs"}]}}] => spec.volumes[0].configMap.items[0].path: Invalid value: "/abs": must be a relative path
        spec.volumes = [{"name": "v", "persistentVolumeClaim": {}}] => spec.volumes[0].persistentVolumeClaim.claimName: Required value
        spec.volumes = [{"name": "v", "nfs": {"server": "s", "path": "x"}}] => spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path
        spec.volumes = [{"name": "v", "emptyDir": {"sizeLimit": "-1"}}] => spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity
        spec.serviceAccountName = "s" ; spec.volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 10}}]}}] => spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes
        spec.volumes = [{"name": "v", "ephemeral": {}}] => spec.volumes[0].ephemeral.volumeClaimTemplate: Required value
        spec.volumes = [{"name": "v"}] ; spec.containers[0].volumeDevices = [{"name": "v", "devicePath": "/dev/x"}] => spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode
        "#,
    );
}

#[test]
fn probes_and_hooks_are_checked() {
    check(
        "/Pod",
        r#"
        spec.containers[0].livenessProbe = {} => spec.containers[0].livenessProbe: Required value: must specify a handler type
        spec.containers[0].livenessProbe = {"exec": {"command": ["a"]}, "httpGet": {"port": 1}} => spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type
        spec.containers[0].livenessProbe = {"exec": {"command": []}} => spec.containers[0].livenessProbe.exec.command: Required value
        spec.containers[0].livenessProbe = {"exec": {"command": ["a"]}, "successThreshold": 2} => spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
        spec.containers[0].readinessProbe = {"exec": {"command": ["a"]}, "periodSeconds": -1} => spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
        spec.containers[0].readinessProbe = {"tcpSocket": {"port": "BAD!"}} => spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: "BAD!": must contain only alpha-numeric characters...
        spec.containers[0].readinessProbe = {"httpGet": {"port": 70000}} => spec.containers[0].readinessProbe.httpGet.port: Invalid value: 70000: must be between 1 and 65535, inclusive
        spec.containers[0].readinessProbe = {"httpGet": {"port": 7, "scheme": "FTP"}} => spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"
        spec.containers[0].readinessProbe = {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 1} => spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes
        spec.containers[0].lifecycle = {"preStop": {"sleep": {"seconds": 31}}} => spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)
        spec.containers[0].lifecycle = {"preStop": {}} => spec.containers[0].lifecycle.preStop: Required value: must specify a handler type
        "#,
    );
}

#[test]
fn resources_are_checked() {
    check(
        "/Pod",
        r#"
        spec.containers[0].resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}} => spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
        spec.containers[0].resources = {"requests": {"cpu": "-1"}} => spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0
        spec.containers[0].resources = {"limits": {"gpu": "1"}} => spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified && spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers...
        spec.containers[0].resources = {"limits": {"nvidia.com/gpu": "1"}} => ok
        spec.containers[0].resources = {"limits": {"nvidia.com/gpu": "500m"}} => spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer...
        spec.containers[0].resources = {"requests": {"nvidia.com/gpu": "1"}} => spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources
        spec.containers[0].resources = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}} => spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2
        spec.containers[0].resources = {"limits": {"hugepages-2Mi": "2Mi"}} => spec.containers[0].resources: Forbidden: HugePages require cpu or memory
        spec.containers[0].resources = {"claims": [{"name": "x"}]} => spec.containers[0].resources.claims[0].name: Not found: "x"
        spec.overhead = {"cpu": "-1"} => spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0
        "#,
    );
}

#[test]
fn scheduling_is_checked() {
    check(
        "/Pod",
        r#"
        spec.tolerations = [{"operator": "Equal", "value": "x"}] => spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
        spec.tolerations = [{"key": "a", "operator": "Exists", "value": "x"}] => spec.tolerations[0].operator: Invalid value: "x": value must be empty when `operator` is 'Exists'
        spec.tolerations = [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}] => spec.tolerations[0].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set
        spec.tolerations = [{"key": "a", "operator": "Exists", "effect": "X"}] => spec.tolerations[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"
        spec.nodeSelector = {"a b": "c"} => spec.nodeSelector: Invalid value: "a b": name part must consist...
        spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution = {"nodeSelectorTerms": []} => spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term
        spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]} => spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
        spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution = [{"topologyKey": ""}] => spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty && ...
        spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution = [{"weight": 101, "podAffinityTerm": {"topologyKey": "z"}}] => spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100
        spec.topologySpreadConstraints = [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] => spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
        spec.topologySpreadConstraints = [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "X"}] => spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"
        spec.topologySpreadConstraints = [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] => spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"
        "#,
    );
}

#[test]
fn security_is_checked() {
    check(
        "/Pod",
        r#"
        spec.securityContext.runAsUser = -1 => spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 4294967295, inclusive
        spec.containers[0].securityContext = {"privileged": true, "allowPrivilegeEscalation": false} => spec.containers[0].securityContext: Invalid value: {"allowPrivilegeEscalation":false,"privileged":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
        spec.containers[0].securityContext = {"seccompProfile": {"type": "Localhost"}} => spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost
        spec.securityContext.seccompProfile = {"type": "X"} => spec.securityContext.seccompProfile.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"
        spec.securityContext.sysctls = [{"name": "A"}] => spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex...
        spec.hostPID = true ; spec.shareProcessNamespace = true => spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled
        spec.hostUsers = false ; spec.hostIPC = true => spec.HostIPC: Forbidden: when `pod.Spec.HostUsers` is false
        spec.securityContext.fsGroupChangePolicy = "X" => spec.securityContext.fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"
        "#,
    );
}
