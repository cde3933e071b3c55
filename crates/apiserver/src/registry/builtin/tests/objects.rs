//! The other kinds.

use super::{check, check_changed, check_changes, check_changes_of, check_created};

#[test]
fn namespaces() {
    check_created(
        "/Namespace",
        r#"
        => metadata.labels = {"kubernetes.io/metadata.name": "a"} ; spec.finalizers = ["kubernetes"] ; status.phase = "Active"
        metadata.labels = {"x": "y"} => metadata.labels = {"x": "y", "kubernetes.io/metadata.name": "a"}
        "#,
    );
    check_changed(
        "/Namespace",
        "",
        "",
        r#"
        spec.finalizers = [] ; status.phase = "X" => spec.finalizers = ["kubernetes"] ; status.phase = "Active"
        "#,
    );
    check_changed(
        "/Namespace",
        "finalize",
        "",
        "spec.finalizers = [] => spec.finalizers = [] ; status.phase = \"Active\"",
    );
    check_changes_of(
        "/Namespace",
        "status",
        "",
        r#"
        status.phase = "Terminating" => status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty
        "#,
    );
}

#[test]
fn config_maps_and_secrets() {
    check(
        "/ConfigMap",
        r#"
        data = {"a/b": ""} => data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        data = {"..": ""} => data[..]: Invalid value: "..": must not be '..'
        binaryData = {"a": "aGk="} => data[a]: Invalid value: "a": duplicate of key present in binaryData && binaryData[a]: Invalid value: "a": duplicate of key present in data
        "#,
    );
    let large = "x".repeat(1024 * 1024 + 1);
    check(
        "/ConfigMap",
        &format!("data.a = {large:?} => []: Too long: may not be more than 1048576 bytes"),
    );
    check_changes_of(
        "/ConfigMap",
        "",
        "immutable = true",
        r#"
        metadata.labels = {"a": "b"} => ok
        immutable = false => immutable: Forbidden: field is immutable when `immutable` is set
        data.a = "2" => data: Forbidden: field is immutable when `immutable` is set
        "#,
    );
    check_created(
        "/Secret",
        r#"
        => type = "Opaque"
        stringData = {"a": "hello", "b": ""} => data = {"a": "aGVsbG8=", "b": ""} ; stringData = null
        "#,
    );
    check(
        "/Secret",
        r#"
        => ok
        data = {"a b": ""} => data[a b]: Invalid value: "a b": a valid config key...
        type = "kubernetes.io/tls" => data[tls.crt]: Required value && data[tls.key]: Required value
        type = "kubernetes.io/tls" ; data = {"tls.crt": "", "tls.key": ""} => ok
        type = "kubernetes.io/basic-auth" => data[username]: Required value && data[password]: Required value
        type = "kubernetes.io/ssh-auth" => data[ssh-privatekey]: Required value
        type = "kubernetes.io/dockerconfigjson" => data[.dockerconfigjson]: Required value
        type = "kubernetes.io/dockerconfigjson" ; data = {".dockerconfigjson": "e30="} => ok
        type = "kubernetes.io/dockerconfigjson" ; data = {".dockerconfigjson": "eA=="} => data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"...
        type = "kubernetes.io/service-account-token" => metadata.annotations[kubernetes.io/service-account.name]: Required value
        "#,
    );
    check_changes(
        "/Secret",
        r#"
        data.a = "aG8=" => ok
        type = "x" => type: Invalid value: "x": field is immutable
        immutable = true => ok
        "#,
    );
}

#[test]
fn nodes() {
    check_created(
        "/Node",
        r#"
        => status.allocatable = {"cpu": "4"} ; status.capacity = {"cpu": "4"}
        spec.podCIDR = "10.0.0.0/24" => spec.podCIDRs = ["10.0.0.0/24"]
        "#,
    );
    check(
        "/Node",
        r#"
        => ok
        spec.taints[0].effect = "" => spec.taints[0].effect: Required value
        spec.taints[0].effect = "X" => spec.taints[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"
        spec.taints[1] = {"key": "a", "effect": "NoSchedule"} => spec.taints[1]: Duplicate value: {"effect":"NoSchedule","key":"a"}: taints must be unique by key and effect pair
        spec.podCIDR = "x" => spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        "#,
    );
    check_changes_of(
        "/Node",
        "",
        r#"spec.podCIDR = "10.0.0.0/24" ; spec.podCIDRs = ["10.0.0.0/24"] ; spec.providerID = "p""#,
        r#"
        spec.unschedulable = true => ok
        spec.podCIDR = "10.0.1.0/24" ; spec.podCIDRs = ["10.0.1.0/24"] => spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid
        spec.providerID = "q" => spec.providerID: Forbidden: node updates may not change providerID except from "" to valid
        "#,
    );
}

#[test]
fn events() {
    check(
        "/Event",
        r#"
        => ok
        involvedObject.namespace = "other" => involvedObject.namespace: Invalid value: "other": does not match event.namespace
        metadata.name = "Any.Thing:1" => ok
        "#,
    );
    check(
        "events.k8s.io/Event",
        r#"
        => ok
        eventTime - => eventTime: Required value
        action = "" => action: Required value
        reason = "" => reason: Required value
        reportingController = "" => reportingController: Required value...
        reportingInstance = "" => reportingInstance: Required value
        "#,
    );
}

#[test]
fn ranges_and_quotas() {
    check_created(
        "/LimitRange",
        r#"
        => spec.limits[0] = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}
        "#,
    );
    check(
        "/LimitRange",
        r#"
        => ok
        spec.limits[0].min.cpu = "3" => spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than...
        spec.limits[1] = {"type": "Container"} => spec.limits[1].type: Duplicate value: "Container"
        spec.limits = [{"type": "Pod", "default": {"cpu": "1"}}] => spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'
        "#,
    );
    check(
        "/ResourceQuota",
        r#"
        => ok
        spec.hard = {"count/deployments.apps": "1"} => ok
        spec.hard = {"nope": "1"} => spec.hard[nope]: Invalid value: "nope": must be a standard resource type or fully qualified && spec.hard[nope]: Invalid value: "nope": must be a standard resource for quota
        spec.hard = {"pods": "-1"} => spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0
        spec.hard = {"pods": "1500m"} => spec.hard[pods]: Invalid value: "1500m": must be an integer
        spec.scopes = ["X"] => spec.scopes: Invalid value: ["X"]: unsupported scope
        spec.scopes = ["Terminating", "NotTerminating"] => spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes
        "#,
    );
    check_changes(
        "/ResourceQuota",
        r#"
        spec.scopes = ["Terminating"] => spec.scopes: Invalid value: ["Terminating"]: field is immutable
        "#,
    );
}

#[test]
fn leases_budgets_and_priorities() {
    check(
        "coordination.k8s.io/Lease",
        r#"
        => ok
        spec.leaseDurationSeconds = 0 => spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0
        spec.leaseTransitions = -1 => spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0
        "#,
    );
    check(
        "policy/PodDisruptionBudget",
        r#"
        => ok
        spec.maxUnavailable = 1 => spec: Invalid value: {"maxUnavailable":1,"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}: minAvailable and maxUnavailable cannot be both set
        spec.minAvailable = "101%" => spec.minAvailable: Invalid value: "101%": must not be greater than 100%
        spec.minAvailable = -1 => spec.minAvailable: Invalid value: -1: must be greater than or equal to 0
        spec.unhealthyPodEvictionPolicy = "X" => spec.unhealthyPodEvictionPolicy: Unsupported value: "X": supported values: "AlwaysAllow", "IfHealthyBudget"
        "#,
    );
    check_created(
        "scheduling.k8s.io/PriorityClass",
        r#"=> preemptionPolicy = "PreemptLowerPriority" ; metadata.generation = 1"#,
    );
    check(
        "scheduling.k8s.io/PriorityClass",
        r#"
        => ok
        value = 1000000001 => value: Forbidden: maximum allowed value of a user defined priority is 1000000000
        metadata.name = "system-mine" => metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class
        metadata.name = "system-node-critical" ; value = 2000001000 => ok
        preemptionPolicy = "X" => preemptionPolicy: Unsupported value: "X": supported values: "Never", "PreemptLowerPriority"
        "#,
    );
    check_changes(
        "scheduling.k8s.io/PriorityClass",
        r#"
        description = "x" => ok
        value = 11 => value: Forbidden: may not be changed in an update.
        preemptionPolicy = "Never" => preemptionPolicy: Invalid value: "Never": field is immutable
        "#,
    );
    check_changed(
        "scheduling.k8s.io/PriorityClass",
        "",
        "",
        r#"description = "x" => metadata.generation = 1"#,
    );
}

#[test]
fn roles_and_bindings() {
    check(
        "rbac.authorization.k8s.io/Role",
        r#"
        => ok
        rules[0].verbs = [] => rules[0].verbs: Required value: verbs must contain at least one value
        rules[0].apiGroups = [] => rules[0].apiGroups: Required value: resource rules must supply at least one api group
        rules[0].resources = [] => rules[0].resources: Required value: resource rules must supply at least one resource
        rules = [{"verbs": ["get"], "nonResourceURLs": ["/"]}] => rules[0].nonResourceURLs: Invalid value: ["/"]: namespaced rules cannot apply to non-resource URLs
        "#,
    );
    check(
        "rbac.authorization.k8s.io/ClusterRole",
        r#"
        => ok
        rules[0].resources = ["pods"] => rules[0].nonResourceURLs: Invalid value: ["/healthz"]: rules cannot apply to both regular resources and non-resource URLs
        aggregationRule = {"clusterRoleSelectors": []} => aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil
        "#,
    );
    check_created(
        "rbac.authorization.k8s.io/ClusterRoleBinding",
        r#"
        => roleRef.apiGroup = "rbac.authorization.k8s.io" ; subjects[0].apiGroup = "rbac.authorization.k8s.io"
        "#,
    );
    check(
        "rbac.authorization.k8s.io/RoleBinding",
        r#"
        => ok
        roleRef.kind = "X" => roleRef.kind: Unsupported value: "X": supported values: "ClusterRole", "Role"
        roleRef.name = "" => roleRef.name: Required value
        subjects[0].namespace = "" => subjects[0].namespace: Required value
        subjects[0].kind = "X" => subjects[0].kind: Unsupported value: "X": supported values: "Group", "ServiceAccount", "User"
        "#,
    );
    check(
        "rbac.authorization.k8s.io/ClusterRoleBinding",
        r#"
        roleRef.kind = "Role" => roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
        "#,
    );
    check_changes(
        "rbac.authorization.k8s.io/RoleBinding",
        r#"
        subjects = [] => ok
        roleRef.name = "s" => roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}: cannot change roleRef
        "#,
    );
}

#[test]
fn autoscalers() {
    check_created(
        "autoscaling/HorizontalPodAutoscaler",
        r#"
        => spec.minReplicas = 1 ; spec.metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
        spec.behavior = {} => spec.behavior.scaleDown = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]} ; spec.behavior.scaleUp.stabilizationWindowSeconds = 0
        "#,
    );
    check(
        "autoscaling/HorizontalPodAutoscaler",
        r#"
        => ok
        spec.maxReplicas = 0 => spec.maxReplicas: Invalid value: 0: must be greater than 0 && spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`
        spec.minReplicas = 0 => spec.minReplicas: Invalid value: 0: must be greater than or equal to 1
        spec.minReplicas = 5 => spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`
        spec.scaleTargetRef.name = "" => spec.scaleTargetRef.name: Required value
        spec.metrics = [{"type": "Pods"}] => spec.metrics[0].pods: Required value: must populate information for the given metric source
        spec.metrics = [{"type": "X"}] => spec.metrics[0].type: Unsupported value: "X": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
        "#,
    );
}

#[test]
fn requests_for_certificates() {
    check(
        "certificates.k8s.io/CertificateSigningRequest",
        r#"
        => ok
        spec.usages = [] => spec.usages: Required value
        spec.signerName = "" => spec.signerName: Required value
        spec.signerName = "x" => spec.signerName: Invalid value: "x": must be a fully qualified domain and path of the form 'example.com/signer-name'
        spec.expirationSeconds = 5 => spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds
        spec.request = "eA==" => spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST
        "#,
    );
    check_changed(
        "certificates.k8s.io/CertificateSigningRequest",
        "status",
        r#"status.conditions = [{"type": "Approved", "status": "True"}]"#,
        r#"
        spec.signerName = "x" ; status = {"certificate": "eA=="} => spec.signerName = "example.com/a" ; status.conditions[0].type = "Approved" ; status.certificate = "eA=="
        status.conditions = [{"type": "Denied", "status": "True"}, {"type": "Failed", "status": "True"}] => status.conditions[0].type = "Approved" ; status.conditions[1].type = "Failed" ; status.conditions[1].lastUpdateTime = "2026-01-01T00:00:00Z"
        "#,
    );
    check_changed(
        "certificates.k8s.io/CertificateSigningRequest",
        "approval",
        concat!(
            r#"status.certificate = "eA==" ; status.conditions = [{"type": "Approved", "#,
            r#""status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]"#,
        ),
        r#"
        status = {"conditions": [{"type": "Approved", "status": "True"}]} => status.certificate = "eA==" ; status.conditions[0].lastTransitionTime = "2025-01-01T00:00:00Z" ; status.conditions[0].lastUpdateTime = "2026-01-01T00:00:00Z"
        "#,
    );
    check_changed(
        "certificates.k8s.io/CertificateSigningRequest",
        "",
        r#"status.conditions = [{"type": "Approved", "status": "True"}]"#,
        r#"
        status = {} => status.conditions = [{"type": "Approved", "status": "True"}]
        "#,
    );
    check_changes_of(
        "certificates.k8s.io/CertificateSigningRequest",
        "approval",
        r#"status.conditions = [{"type": "Approved", "status": "True"}]"#,
        r#"
        => ok
        status.conditions - => status.conditions: Forbidden: updates may not remove a condition of type "Approved"
        status.conditions = [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}] => status.conditions: Invalid value: ...
        "#,
    );
}

#[test]
fn webhooks_and_policies() {
    check_created(
        "admissionregistration.k8s.io/MutatingWebhookConfiguration",
        r#"
        => webhooks[0].failurePolicy = "Fail" ; webhooks[0].matchPolicy = "Equivalent" ; webhooks[0].timeoutSeconds = 10 ; webhooks[0].reinvocationPolicy = "Never" ; webhooks[0].namespaceSelector = {} ; webhooks[0].clientConfig.service.port = 443 ; webhooks[0].rules[0].scope = "*"
        "#,
    );
    check(
        "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
        r#"
        => ok
        webhooks[0].name = "a.b" => webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots
        webhooks[0].sideEffects - => webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun
        webhooks[0].timeoutSeconds = 31 => webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds
        webhooks[0].clientConfig = {} => webhooks[0].clientConfig: Required value: exactly one of url or service is required
        webhooks[0].admissionReviewVersions = [] => webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1
        webhooks[0].clientConfig.url = "http://x" => webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
        "#,
    );
    check(
        "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
        r#"
        => ok
        spec.matchConstraints - => spec.matchConstraints: Required value
        spec.validations = [] => spec.validations: Required value: validations or auditAnnotations must contain at least one item
        spec.validations[0].expression = "1" => spec.validations[0].expression: Invalid value: "1": must evaluate to bool
        spec.validations[0].expression = "variables.x" => spec.validations[0].expression: Invalid value: "variables.x": compilation failed: undefined field 'x' of variables
        spec.validations[0].messageExpression = "1" => spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string
        spec.validations[0].reason = "Odd" => spec.validations[0].reason: Unsupported value: "Odd": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"
        spec.variables = [{"name": "1", "expression": "2"}] => spec.variables[0].name: Invalid value: "1": name is not a valid CEL identifier
        "#,
    );
    check(
        "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
        r#"
        => ok
        spec.validationActions = [] => spec.validationActions: Required value
        spec.validationActions = ["Deny", "Warn"] => spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)
        spec.paramRef = {"name": "x"} => spec.paramRef.parameterNotFoundAction: Required value
        spec.paramRef = {"parameterNotFoundAction": "Deny"} => spec.paramRef: Required value: one of name or selector must be specified
        "#,
    );
}

#[test]
fn kinds_of_the_control_plane() {
    check_created(
        "flowcontrol.apiserver.k8s.io/FlowSchema",
        "=> spec.matchingPrecedence = 1000 ; metadata.generation = 1",
    );
    check_created(
        "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
        r#"
        => spec.limited.nominalConcurrencyShares = 30 ; spec.limited.limitResponse.queuing = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
        "#,
    );
    check(
        "apiregistration.k8s.io/APIService",
        r#"
        => ok
        metadata.name = "x" => metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.example.com"
        spec.versionPriority = 1001 => spec.versionPriority: Invalid value: 1001: must be positive and less than 1000
        "#,
    );
    check(
        "node.k8s.io/RuntimeClass",
        r#"
        => ok
        handler = "A" => handler: Invalid value: "A": a lowercase RFC 1123 label...
        "#,
    );
    check_changes(
        "node.k8s.io/RuntimeClass",
        r#"handler = "other" => handler: Invalid value: "other": field is immutable"#,
    );
    check_created(
        "resource.k8s.io/ResourceClaim",
        r#"
        => spec.devices.requests[0].exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
        "#,
    );
    check(
        "resource.k8s.io/ResourceClaim",
        r#"
        => ok
        spec.devices.requests[0].exactly - => spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required
        "#,
    );
    check_changes(
        "resource.k8s.io/ResourceClaim",
        r#"spec.devices.requests[0].name = "x" => spec: Invalid value: {...
        metadata.labels = {"a": "b"} => ok"#,
    );
}
