//! Reads what explains a workload that does not become ready: its pods, Warning events and the last
//! lines of its output. It changes nothing, and leaves out whatever may not be read.

use std::fmt::Write as _;

use serde_json::Value;

use super::blockers::{self, Container};
use super::verdict::Observation;

/// Lines of a container's output that are shown.
const LINES_MAX: u32 = 20;
/// Warning events that are shown; of more, the newest.
const EVENTS_MAX: usize = 5;
/// Pods of one object that are read.
const PODS_MAX: u32 = 500;
const EVENTS_READ_MAX: u32 = 500;
const NODES_MAX: u32 = 500;
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// Kinds whose objects are named after the object that they belong to.
const NAMED_AFTER: [&str; 8] = [
    "DataVolume",
    "DynamoComponentDeployment",
    "Job",
    "JobSet",
    "PersistentVolumeClaim",
    "ReplicaSet",
    "VirtualMachine",
    "VirtualMachineInstance",
];

/// Reads the surroundings of objects in one namespace.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    pub client: &'a kube::Client,
    pub namespace: &'a str,
}

/// Evidence about a workload that failed or takes too long.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Warning events, oldest first, one line each.
    pub events: Vec<String>,
    /// Name of the container, and its last lines of output.
    pub output: Option<(Container, Vec<String>)>,
}

impl Reader<'_> {
    /// Observes an object with its pods.
    pub async fn observe(&self, object: Value) -> Observation {
        let pods = self.pods(&object).await;
        self.observe_pods(object, pods).await
    }

    /// Observes an object whose pods were read already. Events and nodes are read only for pods
    /// that have not started, which they explain.
    pub async fn observe_pods(&self, object: Value, pods: Vec<Value>) -> Observation {
        let is_pending = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Pending"));
        let mut observation = Observation { object, pods, ..Observation::default() };
        if observation.pods.iter().any(is_pending) {
            observation.warnings = self.warnings(&observation).await;
            observation.nodes = self.list(&format!("/api/v1/nodes?limit={NODES_MAX}")).await;
        }
        observation
    }

    /// The pods of an object; none if it has none or they may not be listed.
    pub async fn pods(&self, object: &Value) -> Vec<Value> {
        if object["kind"] == "Pod" {
            return vec![object.clone()];
        }
        let Some(selector) = selector(object) else { return Vec::new() };
        let namespace = self.namespace;
        self.list(&format!(
            "/api/v1/namespaces/{namespace}/pods?limit={PODS_MAX}&labelSelector={selector}"
        ))
        .await
    }

    /// Warning events of an object, its pods and the objects between them, oldest first.
    async fn warnings(&self, observation: &Observation) -> Vec<Value> {
        let namespace = self.namespace;
        let mut events = self
            .list(&format!(
                "/api/v1/namespaces/{namespace}/events?limit={EVENTS_READ_MAX}\
                 &fieldSelector=type%3DWarning"
            ))
            .await;
        events.retain(|event| is_about(event, observation));
        events.sort_by_key(last_time);
        events
    }

    /// Collects the evidence for an observation; `container` is the one that is to blame.
    pub async fn collect(
        &self,
        observation: &Observation,
        container: Option<Container>,
    ) -> Evidence {
        let warnings = self.warnings(observation).await;
        let newest = warnings.len().saturating_sub(EVENTS_MAX);
        let events = warnings[newest..].iter().map(event_line).collect();
        let blamed = container
            .or_else(|| blockers::first_broken(&observation.pods).map(|one| one.container));
        let candidates = blamed.into_iter().chain(started(&observation.pods));
        let mut output = None;
        for container in candidates.filter(|one| !one.name.is_empty()) {
            if let Some(lines) = self.last_lines(&container).await {
                output = Some((container, lines));
                break;
            }
        }
        Evidence { events, output }
    }

    /// The last lines of a container's output, or of its previous run where it has none yet.
    async fn last_lines(&self, container: &Container) -> Option<Vec<String>> {
        let (namespace, Container { pod, name }) = (self.namespace, container);
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={name}\
             &tailLines={LINES_MAX}"
        );
        for query in ["", "&previous=true"] {
            let request = http::Request::get(format!("{path}{query}")).body(Vec::new()).ok()?;
            let text = self.client.request_text(request).await.unwrap_or_default();
            if !text.trim().is_empty() {
                return Some(text.trim_end().lines().map(str::to_owned).collect());
            }
        }
        None
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { return Vec::new() };
        let mut found = self.client.request::<Value>(request).await.unwrap_or_default();
        found["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Evidence {
    /// The newest line of output, or the newest event.
    pub fn last(&self) -> Option<&str> {
        let output = self.output.iter().flat_map(|(_, lines)| lines);
        let line = output.map(|line| line.trim()).rfind(|line| !line.is_empty());
        line.or_else(|| self.events.last().map(String::as_str))
    }

    /// Events and output on lines of their own; nothing if there is neither.
    pub fn text(&self) -> Option<String> {
        let mut text = self.events.join("\n");
        if let Some((Container { pod, name }, lines)) = &self.output {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = write!(text, "last lines of pod/{pod}, container {name}:");
            lines.iter().for_each(|line| {
                let _ = write!(text, "\n  {line}");
            });
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Containers that have started and are not ready, then all that have started.
fn started(pods: &[Value]) -> Vec<Container> {
    let mut found: Vec<(bool, Container)> = Vec::new();
    for pod in pods {
        for status in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if status["state"]["running"].is_object()
                || status["lastState"]["terminated"].is_object()
            {
                let (pod, name) = (text(&pod["metadata"]["name"]), text(&status["name"]));
                found.push((status["ready"] == true, Container { pod, name }));
            }
        }
    }
    found.sort_by_key(|(is_ready, _)| *is_ready);
    found.into_iter().map(|(_, container)| container).collect()
}

/// `Warning FailedMount pod/web-1: MountVolume.SetUp failed (x3)`.
pub fn event_line(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let involved = &event["involvedObject"];
    let count = event["series"]["count"].as_u64().or(event["count"].as_u64()).unwrap_or(1);
    let count = if count > 1 { format!(" (x{count})") } else { String::new() };
    format!(
        "Warning {} {}/{}: {}{count}",
        text(&event["reason"]),
        text(&involved["kind"]).to_lowercase(),
        text(&involved["name"]),
        text(&event["message"]).replace('\n', " ")
    )
}

fn last_time(event: &Value) -> String {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    let time = times.into_iter().filter_map(Value::as_str).find(|time| !time.is_empty());
    time.unwrap_or_default().to_owned()
}

fn is_about(event: &Value, observation: &Observation) -> bool {
    let involved = &event["involvedObject"];
    let metadata = &observation.object["metadata"];
    let uid = involved["uid"].as_str().unwrap_or_default();
    let has_uid = |object: &Value| !uid.is_empty() && object["metadata"]["uid"] == uid;
    if has_uid(&observation.object) || observation.pods.iter().any(has_uid) {
        return true;
    }
    let (Some(own), Some(name)) = (metadata["name"].as_str(), involved["name"].as_str()) else {
        return false;
    };
    let created = metadata["creationTimestamp"].as_str().unwrap_or_default();
    let rest = name.strip_prefix(own);
    let is_named_after = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    is_named_after
        && NAMED_AFTER.iter().any(|kind| involved["kind"] == *kind)
        && last_time(event).as_str() >= created
}

/// Query for the pods of an object.
fn selector(object: &Value) -> Option<String> {
    let name = object["metadata"]["name"].as_str()?;
    let label = |key: &str| format!("{}%3D{name}", key.replace('/', "%2F"));
    match object["kind"].as_str()? {
        "TrainJob" | "JobSet" => Some(label(JOB_SET_NAME)),
        "DynamoGraphDeployment" => Some(label(inference::names::GRAPH)),
        _ => {
            let labels = object["spec"]["selector"]["matchLabels"].as_object()?;
            let pair = |(key, value): (&String, &Value)| {
                Some(format!("{}%3D{}", key.replace('/', "%2F"), value.as_str()?))
            };
            let all = labels.iter().map(pair).collect::<Option<Vec<String>>>()?;
            Some(all.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_found_by_the_selector_of_their_owner() {
        let deployment = json!({"kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a/b": "c", "d": "e"}}}});
        assert_eq!(selector(&deployment).as_deref(), Some("a%2Fb%3Dc,d%3De"));
        let job = json!({"kind": "TrainJob", "metadata": {"name": "t"}});
        assert_eq!(selector(&job).as_deref(), Some("jobset.sigs.k8s.io%2Fjobset-name%3Dt"));
        assert_eq!(selector(&json!({"kind": "ConfigMap", "metadata": {"name": "c"}})), None);
    }

    #[test]
    fn events_of_the_object_its_pods_and_what_is_between_are_evidence() {
        let object = json!({"kind": "TrainJob", "metadata": {"name": "bert", "uid": "1",
            "creationTimestamp": "2026-01-02T10:00:00Z"}});
        let pods = vec![json!({"metadata": {"name": "bert-node-0-0", "uid": "2"}})];
        let observation = Observation { object, pods, ..Observation::default() };
        let about = |kind: &str, name: &str, uid: &str, time: &str| {
            let event = json!({"involvedObject": {"kind": kind, "name": name, "uid": uid},
                "lastTimestamp": time});
            is_about(&event, &observation)
        };
        let now = "2026-01-02T10:00:05Z";
        assert!(about("TrainJob", "bert", "1", now) && about("Pod", "bert-node-0-0", "2", now));
        assert!(about("Job", "bert-node-0", "9", now));
        assert!(!about("Job", "bert-node-0", "9", "2026-01-01T00:00:00Z"), "an earlier run");
        assert!(!about("Pod", "bert-node-0-1", "8", now), "a pod of another run");
        assert!(!about("Job", "berta", "9", now));
    }

    #[test]
    fn the_newest_line_of_output_says_more_than_the_newest_event() {
        let event = json!({"reason": "BackOff", "message": "restarting\nfailed container",
            "count": 3, "involvedObject": {"kind": "Pod", "name": "p"}});
        let mut evidence = Evidence { events: vec![event_line(&event)], output: None };
        let line = "Warning BackOff pod/p: restarting failed container (x3)";
        assert_eq!((evidence.last(), evidence.text().as_deref()), (Some(line), Some(line)));
        let container = Container { pod: "p".to_owned(), name: "main".to_owned() };
        evidence.output = Some((container, vec!["no database".to_owned(), String::new()]));
        assert_eq!(evidence.last(), Some("no database"));
        let text = evidence.text().expect("evidence");
        assert!(
            text.ends_with("last lines of pod/p, container main:\n  no database\n  "),
            "{text}"
        );
    }
}
