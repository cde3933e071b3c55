//! What comes in from outside, what may talk to what, and addresses.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{age, at, join, list, name, selector, text, text_or};
use super::super::{Column, Printer, cells};
use super::services::load_balancer_addresses;

const GROUP: &str = "networking.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new(GROUP, "Ingress", INGRESS, ingress),
    Printer::new(GROUP, "IngressClass", INGRESS_CLASS, ingress_class),
    Printer::new(GROUP, "NetworkPolicy", NETWORK_POLICY, |object, now| {
        cells![name(object), selector(at(object, &["spec", "podSelector"])), age(object, now)]
    }),
    Printer::new(GROUP, "ServiceCIDR", SERVICE_CIDR, |object, now| {
        let ranges = list(object, &["spec", "cidrs"]).iter().filter_map(Value::as_str);
        cells![name(object), join(ranges, ","), age(object, now)]
    }),
    Printer::new(GROUP, "IPAddress", IP_ADDRESS, |object, _| cells![name(object), parent(object)]),
];

const INGRESS: &[Column] = &[
    Column::NAME,
    Column::text("Class", "Which ingress controller it is for."),
    Column::text("Hosts", "The hosts it has rules for."),
    Column::text("Address", "Where it can be reached."),
    Column::text("Ports", "The ports that are open."),
    Column::AGE,
];

const INGRESS_CLASS: &[Column] = &[
    Column::NAME,
    Column::text("Controller", "The controller of the class."),
    Column::text("Parameters", "An object with more settings."),
    Column::AGE,
];

const NETWORK_POLICY: &[Column] =
    &[Column::NAME, Column::text("Pod-Selector", "The pods it is about."), Column::AGE];

const SERVICE_CIDR: &[Column] =
    &[Column::NAME, Column::text("CIDRs", "The ranges of service addresses."), Column::AGE];

const IP_ADDRESS: &[Column] =
    &[Column::NAME, Column::text("ParentRef", "The object that has the address.")];

const HOSTS_SHOWN_MAX: usize = 3;

fn ingress(object: &Value, now: i64) -> Vec<Value> {
    let has_tls = !list(object, &["spec", "tls"]).is_empty();
    cells![
        name(object),
        text_or(object, &["spec", "ingressClassName"], "<none>"),
        hosts(list(object, &["spec", "rules"])),
        load_balancer_addresses(object).join(","),
        if has_tls { "80, 443" } else { "80" },
        age(object, now),
    ]
}

/// Counts rules where hosts are cut off, as upstream does: a rule may have no host.
fn hosts(rules: &[Value]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut is_cut = false;
    for rule in rules {
        let host = text(rule, &["host"]);
        is_cut |= shown.len() == HOSTS_SHOWN_MAX;
        if !is_cut && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), is_cut) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => {
            format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN_MAX)
        }
    }
}

fn ingress_class(object: &Value, now: i64) -> Vec<Value> {
    let parameters = match at(object, &["spec", "parameters"]) {
        Value::Null => "<none>".to_owned(),
        reference => {
            let group = at(reference, &["apiGroup"]).as_str();
            let dotted = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{dotted}/{}", text(reference, &["kind"]), text(reference, &["name"]))
        }
    };
    cells![name(object), text(object, &["spec", "controller"]), parameters, age(object, now)]
}

/// `services/default/web`.
fn parent(address: &Value) -> String {
    let parent = at(address, &["spec", "parentRef"]);
    if parent.is_null() {
        return "<none>".to_owned();
    }
    let mut line = text(parent, &["resource"]).to_lowercase();
    match text(parent, &["group"]) {
        "" => {}
        group => line = format!("{line}.{}", group.to_lowercase()),
    }
    match text(parent, &["namespace"]) {
        "" => {}
        namespace => line = format!("{line}/{namespace}"),
    }
    format!("{line}/{}", text(parent, &["name"]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::tests::check;
    use super::GROUP;

    #[test]
    fn ingresses() {
        check(
            GROUP,
            "Ingress",
            json!({
                "spec": {"ingressClassName": "nginx", "rules": [{"host": "a.io"}], "tls": [{}]},
                "status": {"loadBalancer": {"ingress": [{"hostname": "lb.io"}, {"ip": "1.1.1.1"}]}},
            }),
            json!(["x", "nginx", "a.io", "1.1.1.1,lb.io", "80, 443", "5m"]),
        );
        let hosts = |hosts: &[&str], shown: &str| {
            let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
            check(
                GROUP,
                "Ingress",
                json!({"spec": {"rules": rules}}),
                json!(["x", "<none>", shown, "", "80", "5m"]),
            );
        };
        hosts(&[], "*");
        hosts(&[""], "*");
        hosts(&["a", "b", "c"], "a,b,c");
        hosts(&["a", "b", "c", "d", "e"], "a,b,c + 2 more...");
    }

    #[test]
    fn classes_policies_and_addresses() {
        check(
            GROUP,
            "IngressClass",
            json!({"spec": {"controller": "c.io/c",
                "parameters": {"apiGroup": "c.io", "kind": "P", "name": "p"}}}),
            json!(["x", "c.io/c", "P.c.io/p", "5m"]),
        );
        check(GROUP, "IngressClass", json!({}), json!(["x", "", "<none>", "5m"]));
        check(
            GROUP,
            "NetworkPolicy",
            json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
            json!(["x", "a=b", "5m"]),
        );
        check(
            GROUP,
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}}}),
            json!(["x", "<none>", "5m"]),
        );
        check(
            GROUP,
            "ServiceCIDR",
            json!({"spec": {"cidrs": ["10.0.0.0/16", "fd00::/108"]}}),
            json!(["x", "10.0.0.0/16,fd00::/108", "5m"]),
        );
        let parent = json!({"group": "", "resource": "services", "namespace": "d", "name": "web"});
        check(
            GROUP,
            "IPAddress",
            json!({"spec": {"parentRef": parent}}),
            json!(["x", "services/d/web"]),
        );
        let parent = json!({"group": "g.io", "resource": "things", "name": "t"});
        check(
            GROUP,
            "IPAddress",
            json!({"spec": {"parentRef": parent}}),
            json!(["x", "things.g.io/t"]),
        );
        check(GROUP, "IPAddress", json!({}), json!(["x", "<none>"]));
    }
}
