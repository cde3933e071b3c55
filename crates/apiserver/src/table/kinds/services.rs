//! How pods are reached: services and the endpoints behind them.
//!
//! Upstream: pkg/printers/internalversion/printers.go (printService, formatEndpoints)

use serde_json::Value;

use super::super::read::{age, at, first_few, integer, labels, list, name, plain, text, text_or};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "Service", SERVICE, service),
    Printer::new("", "Endpoints", ENDPOINTS, |object, now| {
        cells![name(object), endpoints(object), age(object, now)]
    }),
    Printer::new("discovery.k8s.io", "EndpointSlice", ENDPOINT_SLICE, endpoint_slice),
];

const SERVICE: &[Column] = &[
    Column::NAME,
    Column::text("Type", "How the service can be reached."),
    Column::text("Cluster-IP", "The address inside the cluster."),
    Column::text("External-IP", "The addresses outside the cluster."),
    Column::text("Port(s)", "The ports, with the ports on the nodes if there are any."),
    Column::AGE,
    Column::text("Selector", "The labels of the pods behind the service.").wide(),
];

const ENDPOINTS: &[Column] = &[
    Column::NAME,
    Column::text("Endpoints", "The addresses that answer for the service."),
    Column::AGE,
];

const ENDPOINT_SLICE: &[Column] = &[
    Column::NAME,
    Column::text("AddressType", "What kind of addresses the slice has."),
    Column::text("Ports", "The ports of the endpoints."),
    Column::text("Endpoints", "The addresses of the endpoints."),
    Column::AGE,
];

/// How many addresses or ports are shown.
const SHOWN_MAX: usize = 3;

fn service(object: &Value, now: i64) -> Vec<Value> {
    let first_ip = list(object, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
    let cluster_ip = first_ip.unwrap_or_else(|| text_or(object, &["spec", "clusterIP"], "<none>"));
    cells![
        name(object),
        text(object, &["spec", "type"]),
        cluster_ip,
        external_ip(object),
        ports(object),
        age(object, now),
        labels(at(object, &["spec", "selector"])),
    ]
}

fn external_ip(service: &Value) -> String {
    let mut addresses: Vec<String> = Vec::new();
    let instead = match text(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => "<none>",
        "LoadBalancer" => {
            addresses = load_balancer_addresses(service);
            "<pending>"
        }
        "ExternalName" => return text(service, &["spec", "externalName"]).to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    addresses.extend(list(service, &["spec", "externalIPs"]).iter().map(plain));
    if addresses.is_empty() { instead.to_owned() } else { addresses.join(",") }
}

/// Of a service or an ingress: sorted, each once.
pub fn load_balancer_addresses(object: &Value) -> Vec<String> {
    let mut addresses: Vec<String> = list(object, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|one| text_or(one, &["ip"], text(one, &["hostname"])).to_owned())
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

fn ports(service: &Value) -> String {
    let ports: Vec<String> = list(service, &["spec", "ports"])
        .iter()
        .map(|one| {
            let (port, protocol) = (integer(one, &["port"]), text(one, &["protocol"]));
            match integer(one, &["nodePort"]) {
                node_port if node_port > 0 => format!("{port}:{node_port}/{protocol}"),
                _ => format!("{port}/{protocol}"),
            }
        })
        .collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn endpoints(object: &Value) -> String {
    let subsets = list(object, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let (mut shown, mut total) = (Vec::new(), 0);
    for subset in subsets {
        let addresses = list(subset, &["addresses"]);
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            // A headless service may have none.
            total += addresses.len();
            let ips = addresses.iter().map(|one| text(one, &["ip"]).to_owned());
            shown.extend(ips.take(SHOWN_MAX - shown.len()));
        }
        for port in ports {
            total += addresses.len();
            let number = integer(port, &["port"]);
            let with_port = addresses.iter().map(|one| host_port(text(one, &["ip"]), number));
            shown.extend(with_port.take(SHOWN_MAX - shown.len()));
        }
    }
    first_few(&shown, total)
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn endpoint_slice(object: &Value, now: i64) -> Vec<Value> {
    let ports = list(object, &["ports"]);
    let shown_ports: Vec<String> = ports
        .iter()
        .take(SHOWN_MAX)
        .map(|one| match (at(one, &["port"]), text(one, &["name"])) {
            (Value::Null, "") => "*".to_owned(),
            (Value::Null, name) => name.to_owned(),
            (port, _) => port.to_string(),
        })
        .collect();
    let addresses =
        || list(object, &["endpoints"]).iter().flat_map(|one| list(one, &["addresses"])).map(plain);
    let shown_addresses: Vec<String> = addresses().take(SHOWN_MAX).collect();
    cells![
        name(object),
        text(object, &["addressType"]),
        or_unset(first_few(&shown_ports, ports.len())),
        or_unset(first_few(&shown_addresses, addresses().count())),
        age(object, now),
    ]
}

fn or_unset(line: String) -> String {
    if line.is_empty() { "<unset>".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;

    #[test]
    fn services_by_type() {
        check(
            "",
            "Service",
            json!({"spec": {
                "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
                "ports": [
                    {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 443, "protocol": "TCP"},
                ],
                "selector": {"app": "web"},
            }}),
            json!(["x", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,443/TCP", "5m", "app=web"]),
        );
        check(
            "",
            "Service",
            json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
            json!(["x", "ExternalName", "<none>", "example.com", "<none>", "5m", "<none>"]),
        );
        check(
            "",
            "Service",
            json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.1.1.1"]}}),
            json!(["x", "ClusterIP", "None", "1.1.1.1", "<none>", "5m", "<none>"]),
        );
        let cell = |ingress: serde_json::Value, external: serde_json::Value, shown: &str| {
            check(
                "",
                "Service",
                json!({"spec": {"type": "LoadBalancer", "externalIPs": external},
                    "status": {"loadBalancer": {"ingress": ingress}}}),
                json!(["x", "LoadBalancer", "<none>", shown, "<none>", "5m", "<none>"]),
            );
        };
        cell(json!([]), json!([]), "<pending>");
        let both = json!([{"ip": "2.2.2.2"}, {"hostname": "a.example.com"}, {"ip": "1.1.1.1"}]);
        cell(both, json!([]), "1.1.1.1,2.2.2.2,a.example.com");
        cell(json!([{"ip": "2.2.2.2"}]), json!(["1.1.1.1"]), "2.2.2.2,1.1.1.1");
        cell(json!([]), json!(["1.1.1.1"]), "1.1.1.1");
        check(
            "",
            "Service",
            json!({}),
            json!(["x", "", "<none>", "<unknown>", "<none>", "5m", "<none>"]),
        );
    }

    #[test]
    fn endpoints_are_shown_three_at_a_time() {
        let address = |last: u8| json!({"ip": format!("10.0.0.{last}")});
        let cases = [
            (json!([]), "<none>"),
            (json!([{"addresses": [address(1)], "ports": [{"port": 80}]}]), "10.0.0.1:80"),
            (json!([{"addresses": [address(1), address(2)]}]), "10.0.0.1,10.0.0.2"),
            (json!([{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 1}]}]), "[fd00::1]:1"),
            (
                json!([
                    {"addresses": [address(1), address(2)], "ports": [{"port": 80}, {"port": 81}]},
                    {"addresses": [address(3)], "ports": [{"port": 82}]},
                ]),
                "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 2 more...",
            ),
            (json!([{"notReadyAddresses": [address(1)], "ports": [{"port": 80}]}]), ""),
        ];
        for (subsets, shown) in cases {
            check("", "Endpoints", json!({"subsets": subsets}), json!(["x", shown, "5m"]));
        }
    }

    #[test]
    fn endpoint_slices() {
        check(
            "discovery.k8s.io",
            "EndpointSlice",
            json!({
                "addressType": "IPv4",
                "ports": [{"port": 80}, {"name": "all"}, {}],
                "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3"]},
                    {"addresses": ["10.0.0.4"]}],
            }),
            json!(["x", "IPv4", "80,all,*", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...", "5m"]),
        );
        check(
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv6"}),
            json!(["x", "IPv6", "<unset>", "<unset>", "5m"]),
        );
    }
}
