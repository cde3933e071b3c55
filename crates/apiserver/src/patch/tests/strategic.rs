//! Strategic merge patches.

use super::{check, value};
use crate::facts;
use crate::patch::strategic;

/// Checks `(object, patch, result)` for a type.
#[track_caller]
fn check_all(of: &str, cases: &[(&str, &str, &str)]) {
    let of = match of {
        "ObjectMeta" => facts::type_by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        of => facts::type_by_name(&format!("io.k8s.api.{of}")),
    };
    for (object, patch, expected) in cases {
        let mut result = value(object);
        let found = strategic::apply(&mut result, value(patch), of.unwrap()).map(|()| result);
        check(&format!("{object} {patch}"), found, expected);
    }
}

#[test]
fn maps_and_scalars_merge() {
    check_all(
        "apps.v1.DeploymentSpec",
        &[
            ("{replicas: 1}", "{}", "{replicas: 1}"),
            ("{replicas: 1}", "{replicas: 2}", "{replicas: 2}"),
            ("{replicas: 1, paused: true}", "{paused: null}", "{replicas: 1}"),
            ("{replicas: 1}", "{paused: null}", "{replicas: 1}"),
            ("{}", "{replicas: 3}", "{replicas: 3}"),
            (
                "{template: {metadata: {labels: {a: '1', b: '2'}}}}",
                "{template: {metadata: {labels: {a: null, c: '3'}}}}",
                "{template: {metadata: {labels: {b: '2', c: '3'}}}}",
            ),
            (
                "{}",
                "{template: {metadata: {labels: {a: null, c: '3'}}}}",
                "{template: {metadata: {labels: {c: '3'}}}}",
            ),
            (
                "{selector: null}",
                "{selector: {matchLabels: {a: b}}}",
                "{selector: {matchLabels: {a: b}}}",
            ),
            ("{replicas: 1}", "{replicas: {odd: true}}", "{replicas: {odd: true}}"),
            (
                "{selector: {matchLabels: {a: b}}}",
                "{selector: {matchLabels: {c: d}}}",
                "{selector: {matchLabels: {a: b, c: d}}}",
            ),
        ],
    );
    check_all(
        "core.v1.ConfigMap",
        &[
            ("{data: {a: x, b: y}}", "{data: {a: null, c: z}}", "{data: {b: y, c: z}}"),
            ("{data: {a: x}}", "{data: null}", "{}"),
            ("{data: {a: x}}", "{data: {}}", "{data: {a: x}}"),
            ("{data: {a: x}}", "{binaryData: {b: eA==}}", "{data: {a: x}, binaryData: {b: eA==}}"),
            ("{data: {a: x}}", "[]", "400: invalid JSON document"),
            ("{data: {a: x}}", "null", "{data: {a: x}}"),
        ],
    );
    check_all(
        "policy.v1.PodDisruptionBudgetSpec",
        &[(
            "{selector: {matchLabels: {a: b}}}",
            "{selector: {matchExpressions: []}}",
            "{selector: {matchExpressions: []}}",
        )],
    );
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    check_all(
        "core.v1.Container",
        &[
            ("{args: [a, b]}", "{args: [c]}", "{args: [c]}"),
            ("{args: [a, b]}", "{args: []}", "{args: []}"),
            ("{args: [a, b]}", "{args: null}", "{}"),
            ("{command: [a]}", "{args: [x, x]}", "{command: [a], args: [x, x]}"),
            (
                "{envFrom: [{prefix: a}]}",
                "{envFrom: [{prefix: b, configMapRef: null}]}",
                "{envFrom: [{prefix: b}]}",
            ),
        ],
    );
    check_all(
        "core.v1.PodSpec",
        &[
            ("{tolerations: [{key: a}]}", "{tolerations: [{key: b}]}", "{tolerations: [{key: b}]}"),
            ("{nodeSelector: {a: b}}", "{nodeSelector: {c: d}}", "{nodeSelector: {a: b, c: d}}"),
        ],
    );
}

#[test]
fn lists_merge_by_their_key() {
    check_all(
        "core.v1.PodSpec",
        &[
            (
                "{containers: [{name: a, image: x}, {name: b, image: y}]}",
                "{containers: [{name: b, image: z}]}",
                "{containers: [{name: a, image: x}, {name: b, image: z}]}",
            ),
            (
                "{containers: [{name: a, image: x, tty: true}]}",
                "{containers: [{name: a, image: null}]}",
                "{containers: [{name: a, tty: true}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: b}]}",
                "{containers: [{name: b}, {name: a}]}",
            ),
            ("{containers: []}", "{containers: []}", "{containers: []}"),
            ("{containers: [{name: a}]}", "{containers: []}", "{containers: [{name: a}]}"),
            ("{containers: [{name: a}]}", "{containers: null}", "{}"),
            ("{}", "{containers: [{name: a, image: null}]}", "{containers: [{name: a}]}"),
            (
                "{containers: [{name: a}]}",
                "{containers: [{image: x}]}",
                "422: map: {\"image\":\"x\"} does not contain declared merge key: name",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [text]}",
                "422: list element types are not identical",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [[]]}",
                "422: lists of lists are not supported",
            ),
            (
                "{containers: [{name: a, env: [{name: X, value: '1'}]}]}",
                "{containers: [{name: a, env: [{name: Y, value: '2'}, {name: X, value: '3'}]}]}",
                "{containers: [{name: a, env: [{name: Y, value: '2'}, {name: X, value: '3'}]}]}",
            ),
            (
                "{containers: [{name: a, env: [{name: X, value: '1'}]}]}",
                "{containers: [{name: a, env: [{name: X, value: null, valueFrom: {}}]}]}",
                "{containers: [{name: a, env: [{name: X, valueFrom: {}}]}]}",
            ),
            (
                "{containers: [{name: a}, {name: b}]}",
                "{containers: [{name: c, env: [{name: X, value: null}]}]}",
                "{containers: [{name: c, env: [{name: X}]}, {name: a}, {name: b}]}",
            ),
            (
                "{imagePullSecrets: [{name: a}]}",
                "{imagePullSecrets: [{name: b}, {name: a}]}",
                "{imagePullSecrets: [{name: b}, {name: a}]}",
            ),
            (
                "{hostAliases: [{ip: 1.2.3.4, hostnames: [a]}]}",
                "{hostAliases: [{ip: 1.2.3.4, hostnames: [b]}]}",
                "{hostAliases: [{ip: 1.2.3.4, hostnames: [b]}]}",
            ),
            (
                "{topologySpreadConstraints: [{topologyKey: z, maxSkew: 1}]}",
                "{topologySpreadConstraints: [{topologyKey: z, maxSkew: 2}]}",
                "{topologySpreadConstraints: [{topologyKey: z, maxSkew: 2}]}",
            ),
            (
                "{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}]}]}",
                "{containers: [{name: a, volumeMounts: [{name: v, mountPath: /b}]}]}",
                "{containers: [{name: a, volumeMounts: [{name: v, mountPath: /b}, {name: v, \
                 mountPath: /a}]}]}",
            ),
        ],
    );
    check_all(
        "core.v1.PodStatus",
        &[(
            "{conditions: [{type: Ready, status: 'False'}, {type: X, status: 'True'}]}",
            "{conditions: [{type: Ready, status: 'True'}]}",
            "{conditions: [{type: Ready, status: 'True'}, {type: X, status: 'True'}]}",
        )],
    );
    check_all(
        "ObjectMeta",
        &[(
            "{ownerReferences: [{uid: a, name: x}]}",
            "{ownerReferences: [{uid: b, name: y}]}",
            "{ownerReferences: [{uid: b, name: y}, {uid: a, name: x}]}",
        )],
    );
}

#[test]
fn ports_merge_by_their_number_alone() {
    check_all(
        "core.v1.Container",
        &[
            (
                "{ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}",
                "{ports: [{containerPort: 53, name: dns}]}",
                "{ports: [{containerPort: 53, protocol: TCP, name: dns}, {containerPort: 53, \
                 protocol: UDP}]}",
            ),
            (
                "{ports: [{containerPort: 80, protocol: TCP}]}",
                "{ports: [{containerPort: 80, protocol: UDP}]}",
                "{ports: [{containerPort: 80, protocol: UDP}]}",
            ),
            (
                "{ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}",
                "{ports: [{containerPort: 53, $patch: delete}]}",
                "{ports: []}",
            ),
            (
                "{ports: [{containerPort: 80}]}",
                "{ports: [{name: http}]}",
                "422: map: {\"name\":\"http\"} does not contain declared merge key: containerPort",
            ),
        ],
    );
    check_all(
        "core.v1.ServiceSpec",
        &[
            (
                "{ports: [{port: 80, targetPort: 8080}]}",
                "{ports: [{port: 80, targetPort: http}]}",
                "{ports: [{port: 80, targetPort: http}]}",
            ),
            (
                "{ports: [{port: 80, name: a}]}",
                "{ports: [{port: 443, name: a}]}",
                "{ports: [{port: 443, name: a}, {port: 80, name: a}]}",
            ),
        ],
    );
}

#[test]
fn what_only_the_object_has_keeps_its_order() {
    // Letters are containers.
    let cases = [
        ("a b c", "c a", "b c a"),
        ("a b c", "b", "a b c"),
        ("a b c", "d", "d a b c"),
        ("a b c", "b d", "a b d c"),
        ("a b c", "d b", "d a b c"),
        ("a b c", "c b a", "c b a"),
        ("a b c d", "d b", "a c d b"),
        ("a b", "c d", "c d a b"),
        ("", "b a", "b a"),
        ("a", "", "a"),
        ("a b c d e", "e x a", "b c d e x a"),
    ];
    let containers = |letters: &str| {
        let elements: Vec<_> =
            letters.split_whitespace().map(|name| format!("{{name: {name}}}")).collect();
        format!("{{containers: [{}]}}", elements.join(", "))
    };
    for (object, patch, expected) in cases {
        let case = [object, patch, expected].map(containers);
        check_all("core.v1.PodSpec", &[(&case[0], &case[1], &case[2])]);
    }
}

#[test]
fn scalars_merge_as_a_set() {
    check_all(
        "ObjectMeta",
        &[
            ("{finalizers: [a, b]}", "{finalizers: [c]}", "{finalizers: [c, a, b]}"),
            ("{finalizers: [a, b]}", "{finalizers: [b]}", "{finalizers: [a, b]}"),
            ("{finalizers: [a, b]}", "{finalizers: [b, a]}", "{finalizers: [b, a]}"),
            ("{finalizers: [a, a]}", "{finalizers: [b, b]}", "{finalizers: [b, a]}"),
            ("{finalizers: [a]}", "{finalizers: []}", "{finalizers: [a]}"),
            ("{finalizers: [a]}", "{finalizers: [1]}", "422: list element types are not identical"),
            ("{finalizers: [a]}", "{finalizers: null}", "{}"),
            (
                "{finalizers: [a, b]}",
                "{$deleteFromPrimitiveList/finalizers: [a]}",
                "{finalizers: [b]}",
            ),
            (
                "{finalizers: [a]}",
                "{$deleteFromPrimitiveList/finalizers: [x]}",
                "{finalizers: [a]}",
            ),
            ("{finalizers: [a]}", "{$deleteFromPrimitiveList/finalizers: [a]}", "{finalizers: []}"),
            ("{name: x}", "{$deleteFromPrimitiveList/finalizers: [a]}", "{name: x}"),
            (
                "{finalizers: [a, b]}",
                "{$deleteFromPrimitiveList/finalizers: [a], finalizers: [c]}",
                "{finalizers: [c, b]}",
            ),
            (
                "{finalizers: [a]}",
                "{$deleteFromPrimitiveListfinalizers: [a]}",
                "400: invalid patch format of primitive list",
            ),
            (
                "{finalizers: [a, b]}",
                "{$setElementOrder/finalizers: [b, c], $deleteFromPrimitiveList/finalizers: [a], \
                 finalizers: [c]}",
                "{finalizers: [b, c]}",
            ),
        ],
    );
}

#[test]
fn directives_delete_and_replace() {
    check_all(
        "core.v1.PodSpec",
        &[
            (
                "{containers: [{name: a}, {name: b}]}",
                "{containers: [{name: a, $patch: delete}]}",
                "{containers: [{name: b}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: x, $patch: delete}]}",
                "{containers: [{name: a}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: a, $patch: delete}, {name: b}]}",
                "{containers: [{name: b}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{$patch: delete}]}",
                "422: map: {\"$patch\":\"delete\"} does not contain declared merge key: name",
            ),
            (
                "{containers: [{name: a}, {name: b}]}",
                "{containers: [{$patch: replace}, {name: c}]}",
                "{containers: [{name: c}]}",
            ),
            ("{containers: [{name: a}]}", "{containers: [{$patch: replace}]}", "{containers: []}"),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: a, $patch: merge}]}",
                "422: merging lists cannot yet be specified in the patch",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: a, $patch: jump}]}",
                "422: unknown patch type: jump in map:",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: a, $patch: 1}]}",
                "422: unknown patch type: 1 in map:",
            ),
            (
                "{}",
                "{containers: [{name: a, $patch: delete}, {name: b}]}",
                "{containers: [{name: b}]}",
            ),
            ("{}", "{containers: [{$patch: replace}, {name: b}]}", "{containers: [{name: b}]}"),
            (
                "{securityContext: {runAsUser: 1, fsGroup: 2}}",
                "{securityContext: {$patch: replace, runAsUser: 3}}",
                "{securityContext: {runAsUser: 3}}",
            ),
            (
                "{securityContext: {runAsUser: 1}}",
                "{securityContext: {$patch: delete}}",
                "{securityContext: {}}",
            ),
            (
                "{securityContext: {runAsUser: 1}}",
                "{securityContext: {$patch: merge}}",
                "422: unknown patch type: merge in map: {}",
            ),
            ("{}", "{securityContext: {$patch: delete}}", "{}"),
            ("{}", "{securityContext: {$patch: replace, runAsUser: 1}}", "{}"),
            ("{nodeName: a}", "{$patch: replace, nodeSelector: {a: b}}", "{nodeSelector: {a: b}}"),
            ("{nodeName: a}", "{$patch: delete}", "{}"),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: b, securityContext: {$patch: replace, runAsUser: 1}}]}",
                "{containers: [{name: b, securityContext: {runAsUser: 1}}, {name: a}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: a, env: [{name: X, $patch: delete}]}]}",
                "{containers: [{name: a, env: []}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{containers: [{name: b, image: x}, {name: b, image: y}]}",
                "{containers: [{name: b, image: y}, {name: a}]}",
            ),
            (
                "{tolerations: [{key: a}]}",
                "{tolerations: [{$patch: replace}, {key: b}]}",
                "{tolerations: [{key: b}]}",
            ),
        ],
    );
}

#[test]
fn the_order_of_elements_can_be_set() {
    check_all(
        "core.v1.PodSpec",
        &[
            (
                "{containers: [{name: a}, {name: b}]}",
                "{$setElementOrder/containers: [{name: b}, {name: a}]}",
                "{containers: [{name: b}, {name: a}]}",
            ),
            (
                "{containers: [{name: a}, {name: b}, {name: c}]}",
                "{$setElementOrder/containers: [{name: c}, {name: a}]}",
                "{containers: [{name: b}, {name: c}, {name: a}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{$setElementOrder/containers: [{name: a}, {name: b}], containers: [{name: b, \
                 image: x}]}",
                "{containers: [{name: a}, {name: b, image: x}]}",
            ),
            (
                "{}",
                "{$setElementOrder/containers: [{name: a}, {name: b}], containers: [{name: a}, \
                 {name: b}]}",
                "{containers: [{name: a}, {name: b}]}",
            ),
            ("{}", "{$setElementOrder/containers: [{name: a}]}", "{}"),
            (
                "{containers: [{name: a}, {name: b}]}",
                "{$setElementOrder/containers: [{name: b}], containers: [{name: a, $patch: \
                 delete}]}",
                "{containers: [{name: b}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{$setElementOrder/containers: [{name: a}], containers: [{name: b}]}",
                "400: The order in patch list:",
            ),
            (
                "{containers: [{name: a}, {name: b}]}",
                "{$setElementOrder/containers: [{name: a}, {name: b}], containers: [{name: b}, \
                 {name: a}]}",
                "400: The order in patch list:",
            ),
            (
                "{containers: [{name: a}]}",
                "{$setElementOrder/containers: text}",
                "400: invalid patch format of setElementOrder list",
            ),
            (
                "{containers: [{name: a}]}",
                "{$setElementOrdercontainers: []}",
                "400: invalid patch format of setElementOrder list",
            ),
            (
                "{containers: [{name: a}, {name: b}]}",
                "{$setElementOrder/containers: [], containers: [{name: b, image: x}]}",
                "{containers: [{name: a}, {name: b, image: x}]}",
            ),
            (
                "{containers: [{name: a}]}",
                "{$setElementOrder/containers: [{name: a}], containers: null}",
                "{}",
            ),
            (
                "{containers: [{name: a, env: [{name: X}, {name: Y}]}]}",
                "{$setElementOrder/containers: [{name: a}], containers: [{name: a, \
                 $setElementOrder/env: [{name: Y}, {name: X}]}]}",
                "{containers: [{name: a, env: [{name: Y}, {name: X}]}]}",
            ),
        ],
    );
    check_all(
        "ObjectMeta",
        &[
            (
                "{finalizers: [a, b, c]}",
                "{$setElementOrder/finalizers: [c, b, a]}",
                "{finalizers: [c, b, a]}",
            ),
            (
                "{finalizers: [a, b]}",
                "{$setElementOrder/finalizers: [c, a], finalizers: [c]}",
                "{finalizers: [c, a, b]}",
            ),
        ],
    );
}

#[test]
fn only_retained_keys_stay() {
    check_all(
        "core.v1.PodSpec",
        &[
            (
                "{volumes: [{name: a, emptyDir: {}}]}",
                "{volumes: [{name: a, $retainKeys: [name, hostPath], hostPath: {path: /x}}]}",
                "{volumes: [{name: a, hostPath: {path: /x}}]}",
            ),
            (
                "{volumes: [{name: a, emptyDir: {}}]}",
                "{volumes: [{name: a, $retainKeys: [name]}]}",
                "{volumes: [{name: a}]}",
            ),
            (
                "{volumes: [{name: a, emptyDir: {}}]}",
                "{volumes: [{name: a, $retainKeys: [name], hostPath: {path: /x}}]}",
                "400: invalid patch format of retainKeys",
            ),
            (
                "{volumes: [{name: a, emptyDir: {}}]}",
                "{volumes: [{name: a, $retainKeys: name}]}",
                "400: invalid patch format of retainKeys",
            ),
            (
                "{volumes: []}",
                "{volumes: [{name: a, $retainKeys: [name, emptyDir], emptyDir: {}}]}",
                "{volumes: [{name: a, emptyDir: {}}]}",
            ),
        ],
    );
    check_all(
        "apps.v1.DeploymentSpec",
        &[
            (
                "{strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}",
                "{strategy: {$retainKeys: [type], type: Recreate}}",
                "{strategy: {type: Recreate}}",
            ),
            (
                "{strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}",
                "{strategy: {$retainKeys: [type], type: Recreate, rollingUpdate: null}}",
                "{strategy: {type: Recreate}}",
            ),
            (
                "{strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}",
                "{strategy: {type: Recreate}}",
                "{strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}",
            ),
            (
                "{replicas: 1}",
                "{strategy: {$retainKeys: [type], type: Recreate}}",
                "{replicas: 1, strategy: {type: Recreate}}",
            ),
        ],
    );
}

#[test]
fn what_no_type_describes_merges_as_json() {
    check_all(
        "apps.v1.ControllerRevision",
        &[
            (
                "{data: {a: {b: 1, c: [1]}}}",
                "{data: {a: {b: null, c: [2]}}}",
                "{data: {a: {c: [2]}}}",
            ),
            ("{unknown: {a: [1]}}", "{unknown: {a: [2]}}", "{unknown: {a: [2]}}"),
        ],
    );
}
