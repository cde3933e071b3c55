//! Services and their kin, ingresses, policies.

use super::{check, check_changed, check_changes, check_changes_of, check_created};

#[test]
fn services_get_their_defaults() {
    check_created(
        "/Service",
        r#"
        => spec.type = "ClusterIP" ; spec.sessionAffinity = "None" ; spec.internalTrafficPolicy = "Cluster" ; spec.ports[0].protocol = "TCP" ; spec.ports[0].targetPort = 80 ; status = {"loadBalancer": {}}
        => spec.externalTrafficPolicy = null ; metadata.generation = null
        spec.type = "NodePort" => spec.externalTrafficPolicy = "Cluster"
        spec.type = "LoadBalancer" => spec.allocateLoadBalancerNodePorts = true ; spec.externalTrafficPolicy = "Cluster"
        spec.sessionAffinity = "ClientIP" => spec.sessionAffinityConfig.clientIP.timeoutSeconds = 10800
        spec.clusterIP = "None" => spec.clusterIPs = ["None"]
        spec.clusterIPs = ["10.0.0.1"] => spec.clusterIP = "10.0.0.1"
        spec.ports[0].targetPort = "web" => spec.ports[0].targetPort = "web"
        spec.ports[0].targetPort = 0 => spec.ports[0].targetPort = 80
        spec.externalIPs = ["1.2.3.4"] => spec.externalTrafficPolicy = "Cluster"
        "#,
    );
}

#[test]
fn services_are_checked_by_their_type() {
    check(
        "/Service",
        r#"
        => ok
        spec.ports = [] => spec.ports: Required value
        spec.ports = [] ; spec.clusterIP = "None" => ok
        spec.type = "X" => spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
        spec.type = "ExternalName" => spec.externalName: Required value
        spec.type = "ExternalName" ; spec.externalName = "a.example.com." => ok
        spec.type = "ExternalName" ; spec.externalName = "a" ; spec.clusterIP = "10.0.0.1" => spec.clusterIPs: Forbidden: may not be set for ExternalName services
        spec.type = "NodePort" ; spec.clusterIP = "None" => spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services
        spec.ports[0].port = 0 => spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive...
        spec.ports[0].protocol = "X" => spec.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
        spec.ports[1] = {"port": 81} => spec.ports[0].name: Required value && spec.ports[1].name: Required value
        spec.ports = [{"name": "a", "port": 80}, {"name": "a", "port": 81}] => spec.ports[1].name: Duplicate value: "a"
        spec.ports = [{"name": "a", "port": 80}, {"name": "b", "port": 80}] => spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP","targetPort":0}
        spec.ports[0].name = "A" => spec.ports[0].name: Invalid value: "A": a lowercase RFC 1123 label...
        spec.ports[0].nodePort = 30000 => spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
        spec.sessionAffinity = "X" => spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None"
        spec.sessionAffinity = "ClientIP" ; spec.sessionAffinityConfig.clientIP.timeoutSeconds = 86401 => spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400
        spec.clusterIP = "x" => spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        spec.clusterIP = "10.0.0.1" ; spec.clusterIPs = ["10.0.0.2"] => spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`
        spec.ipFamilies = ["IPv4", "IPv4"] => spec.ipFamilies[1]: Duplicate value: "IPv4"
        spec.ipFamilies = ["IPv6"] ; spec.clusterIP = "10.0.0.1" => spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`
        spec.externalTrafficPolicy = "Local" => spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services
        spec.externalIPs = ["127.0.0.1"] => spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
        spec.loadBalancerSourceRanges = ["10.0.0.0/8"] => spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'
        spec.type = "LoadBalancer" ; spec.loadBalancerSourceRanges = ["x"] => spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        spec.type = "LoadBalancer" ; spec.externalTrafficPolicy = "Local" => spec.healthCheckNodePort: Required value
        spec.allocateLoadBalancerNodePorts = true => spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'
        "#,
    );
}

#[test]
fn what_was_given_out_is_kept() {
    let before = r#"spec.type = "NodePort" ; spec.externalTrafficPolicy = "Cluster" ;
        spec.clusterIP = "10.0.0.1" ; spec.clusterIPs = ["10.0.0.1"] ; spec.ports[0].nodePort = 30001"#;
    let before = &before.replace('\n', " ");
    check_changed(
        "/Service",
        "",
        before,
        r#"
        spec.clusterIP - ; spec.clusterIPs - => spec.clusterIP = "10.0.0.1" ; spec.clusterIPs = ["10.0.0.1"]
        spec.ports = [{"port": 80}] => spec.ports[0].nodePort = 30001
        spec.ports = [{"port": 81}] => spec.ports[0].nodePort = null
        spec.type = "ClusterIP" => spec.ports[0].nodePort = null ; spec.externalTrafficPolicy = null ; spec.clusterIP = "10.0.0.1"
        spec.type = "ExternalName" ; spec.externalName = "a" => spec.clusterIP = null ; spec.clusterIPs = null
        status = {} => status = {"loadBalancer": {}}
        "#,
    );
    check_changes_of(
        "/Service",
        "",
        before,
        r#"
        spec.ports[0].port = 81 => ok
        spec.clusterIP = "10.0.0.2" => spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set
        spec.type = "ClusterIP" => ok
        "#,
    );
}

#[test]
fn endpoints_are_checked() {
    check(
        "/Endpoints",
        r#"
        => ok
        subsets[0].addresses = [] => subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`
        subsets[0].addresses[0].ip = "x" => subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        subsets[0].addresses[0].ip = "127.0.0.1" => subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
        subsets[0].ports[0].port = 0 => subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
        "#,
    );
    check_created(
        "discovery.k8s.io/EndpointSlice",
        r#"=> ports[0].protocol = "TCP" ; ports[0].name = "" ; metadata.generation = 1"#,
    );
    check(
        "discovery.k8s.io/EndpointSlice",
        r#"
        => ok
        addressType = "" => addressType: Required value
        addressType = "X" => addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"
        endpoints[0].addresses = [] => endpoints[0].addresses: Required value: must contain at least 1 address
        endpoints[0].addresses = ["::1"] => endpoints[0].addresses[0]: Invalid value: "::1": must be a valid IPv4 address
        ports[1] = {"port": 81} => ports[1].name: Duplicate value: ""
        "#,
    );
    check_changes(
        "discovery.k8s.io/EndpointSlice",
        r#"
        endpoints[0].addresses = ["10.0.0.2"] => ok
        addressType = "FQDN" ; endpoints = [] => addressType: Invalid value: "FQDN": field is immutable
        "#,
    );
    check_changed(
        "discovery.k8s.io/EndpointSlice",
        "",
        "",
        r#"
        metadata.labels = {"a": "b"} => metadata.generation = 2
        => metadata.generation = 1
        "#,
    );
}

#[test]
fn ingresses_are_checked() {
    check(
        "networking.k8s.io/Ingress",
        r#"
        => ok
        spec.rules = [] => spec: Invalid value: []: either `defaultBackend` or `rules` must be specified
        spec.rules[0].host = "10.0.0.1" => spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address
        spec.rules[0].host = "*.example.com" => ok
        spec.rules[0].host = "a.*.com" => spec.rules[0].host: Invalid value: "a.*.com": a wildcard DNS-1123 subdomain must start with '*.'...
        spec.rules[0].http.paths = [] => spec.rules[0].http.paths: Required value
        spec.rules[0].http.paths[0].pathType - => spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified
        spec.rules[0].http.paths[0].pathType = "X" => spec.rules[0].http.paths[0].pathType: Unsupported value: "X": supported values: "Exact", "ImplementationSpecific", "Prefix"
        spec.rules[0].http.paths[0].path = "x" => spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path
        spec.rules[0].http.paths[0].path = "/a//b" => spec.rules[0].http.paths[0].path: Invalid value: "/a//b": must not contain '//'
        spec.rules[0].http.paths[0].backend = {} => spec.rules[0].http.paths[0].backend: Required value: resource or service backend is required
        spec.rules[0].http.paths[0].backend.service.port = {} => spec.rules[0].http.paths[0].backend.service.port: Required value: port name or number is required
        spec.rules[0].http.paths[0].backend.service.port.name = "a" => spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both port name & port number
        metadata.annotations{kubernetes.io/ingress.class} = "a" ; spec.ingressClassName = "b" => metadata.annotations[kubernetes.io/ingress.class]: Invalid value: "a": can not be set when the class field is also set
        "#,
    );
    check_created(
        "networking.k8s.io/IngressClass",
        r#"=> spec.parameters.scope = "Cluster" ; metadata.generation = 1"#,
    );
    check(
        "networking.k8s.io/IngressClass",
        r#"
        => ok
        spec.controller = "" => spec.controller: Required value
        spec.controller = "x" => spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")
        "#,
    );
    check_changes(
        "networking.k8s.io/IngressClass",
        r#"
        spec.controller = "example.com/d" => spec.controller: Invalid value: "example.com/d": field is immutable
        "#,
    );
}

#[test]
fn network_policies_are_checked() {
    check_created(
        "networking.k8s.io/NetworkPolicy",
        r#"
        => spec.policyTypes = ["Ingress"] ; spec.ingress[0].ports[0].protocol = "TCP"
        spec.egress = [] => spec.policyTypes = ["Ingress", "Egress"]
        "#,
    );
    check(
        "networking.k8s.io/NetworkPolicy",
        r#"
        => ok
        spec.ingress[0].from = [{}] => spec.ingress[0].from[0]: Required value: must specify a peer
        spec.ingress[0].from = [{"ipBlock": {"cidr": "x"}}] => spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
        spec.ingress[0].from = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}] => spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `10.0.0.0/8`
        spec.ingress[0].from = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}] => ok
        spec.ingress[0].from = [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}] => spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer
        spec.ingress[0].ports[0].port = 0 => spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.ingress[0].ports[0].endPort = 79 => spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`
        spec.policyTypes = ["X"] => spec.policyTypes[0]: Unsupported value: "X": supported values: "Egress", "Ingress"
        "#,
    );
}

#[test]
fn addresses_and_ranges_are_checked() {
    check(
        "networking.k8s.io/IPAddress",
        r#"
        => ok
        metadata.name = "x" => metadata.name: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
        spec.parentRef - => spec.parentRef: Required value
        "#,
    );
    check(
        "networking.k8s.io/ServiceCIDR",
        r#"
        => ok
        spec.cidrs = [] => spec.cidrs: Required value: at least one CIDR required
        spec.cidrs = ["10.0.0.0/8", "11.0.0.0/8"] => spec.cidrs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than one IP for each IP family...
        "#,
    );
}
