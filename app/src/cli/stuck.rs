//! Pods that do not get better by themselves: which one it is, why it does not run, and what it
//! said last. It reads, and changes nothing.

use std::fmt;

use serde_json::Value;

/// How much of a container's output is shown.
const LINES_MAX: u32 = 20;
/// Pods of one object that are looked at.
const PODS_MAX: u32 = 500;
/// What a container waits for that somebody has to mend.
const HOPELESS: [&str; 9] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];
/// Labels that tell the pods of an update from those before it.
const FORMS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

/// A container that cannot run, or has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pod: String,
    container: String,
    why: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pod/{}: {}", self.pod, self.why)
    }
}

/// Where the pods of an object are.
pub struct Place<'a> {
    pub client: &'a kube::Client,
    pub namespace: &'a str,
}

impl Place<'_> {
    /// The pods that stand for an object; none where it has none, or nobody may ask for them.
    pub async fn pods(&self, object: &Value) -> Vec<Value> {
        if object["kind"] == "Pod" {
            return vec![object.clone()];
        }
        let Some(selector) = selector(object) else { return Vec::new() };
        let namespace = self.namespace;
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods?limit={PODS_MAX}&labelSelector={selector}"
        );
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { return Vec::new() };
        let found = self.client.request::<Value>(request).await.unwrap_or_default();
        found["items"].as_array().cloned().unwrap_or_default()
    }

    /// The last lines of a container's output, each set in; nothing where it never began.
    pub async fn last_lines(&self, stuck: &Stuck) -> Option<String> {
        let (namespace, Stuck { pod, container, .. }) = (self.namespace, stuck);
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}\
             &tailLines={LINES_MAX}"
        );
        for query in ["", "&previous=true"] {
            let request = http::Request::get(format!("{path}{query}")).body(Vec::new()).ok()?;
            let text = self.client.request_text(request).await.unwrap_or_default();
            if !text.trim().is_empty() {
                let lines = text.lines().map(|line| format!("  {line}"));
                let lines = lines.collect::<Vec<_>>().join("\n");
                return Some(format!(
                    "the last lines of pod/{pod}, container {container}:\n{lines}"
                ));
            }
        }
        None
    }
}

/// Which pods are an object's, for a query.
fn selector(object: &Value) -> Option<String> {
    let name = object["metadata"]["name"].as_str()?;
    match object["kind"].as_str()? {
        "TrainJob" | "JobSet" => Some(format!("{}%3D{name}", JOB_SET_NAME.replace('/', "%2F"))),
        _ => {
            let labels = object["spec"]["selector"]["matchLabels"].as_object()?;
            let label = |(key, value): (&String, &Value)| {
                Some(format!("{}%3D{}", key.replace('/', "%2F"), value.as_str()?))
            };
            let all = labels.iter().map(label).collect::<Option<Vec<String>>>()?;
            Some(all.join(","))
        }
    }
}

/// The first of some pods that cannot run. Those that an update takes away do not count.
pub fn stuck(pods: &[Value]) -> Option<Stuck> {
    let is_there = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let made = |pod: &&Value| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    let newest = pods.iter().filter(is_there).max_by_key(made).map(form)?;
    let current = pods.iter().filter(is_there).filter(|pod| form(pod) == newest);
    current.into_iter().find_map(|pod| container(pod, waits))
}

/// The first of some pods that has failed, or cannot run.
pub fn failed(pods: &[Value]) -> Option<Stuck> {
    stuck(pods).or_else(|| pods.iter().find_map(|pod| container(pod, ended)))
}

fn form(pod: &Value) -> &Value {
    let labels = &pod["metadata"]["labels"];
    FORMS.iter().map(|form| &labels[*form]).find(|value| value.is_string()).unwrap_or(&Value::Null)
}

/// The first container of which something is to be said.
fn container(pod: &Value, say: fn(&Value) -> Option<String>) -> Option<Stuck> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let mut all = statuses.iter().flat_map(|field| pod["status"][*field].as_array()).flatten();
    all.find_map(|status| {
        let (pod, container) = (text(&pod["metadata"]["name"]), text(&status["name"]));
        Some(Stuck { pod, container, why: say(status)? })
    })
}

fn waits(status: &Value) -> Option<String> {
    let waiting = &status["state"]["waiting"];
    let reason = waiting["reason"].as_str().filter(|reason| HOPELESS.contains(reason))?;
    let message = waiting["message"].as_str().filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    let code = status["lastState"]["terminated"]["exitCode"].as_i64();
    let code = code.map(|code| format!(" (its last exit code was {code})")).unwrap_or_default();
    Some(format!("{reason}{message}{code}"))
}

fn ended(status: &Value) -> Option<String> {
    let code = status["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)?;
    let name = status["name"].as_str().unwrap_or_default();
    Some(format!("container {name} ended with exit code {code}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, form: &str, made: &str, state: Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "creationTimestamp": made,
            "labels": {"pod-template-hash": form}},
            "status": {"containerStatuses": [{"name": "main", "state": state,
                "lastState": {"terminated": {"exitCode": 3}}}]}})
    }

    #[test]
    fn a_pod_that_cannot_run_says_why_and_one_that_starts_does_not_count() {
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "so"}});
        let crashes = pod("a", "1", "T1", waiting("CrashLoopBackOff"));
        let said = "pod/a: CrashLoopBackOff: so (its last exit code was 3)";
        assert_eq!(stuck(std::slice::from_ref(&crashes)).expect("stuck").to_string(), said);
        assert_eq!(stuck(&[pod("a", "1", "T1", waiting("ContainerCreating"))]), None);
        // What an update takes away may be as broken as it likes.
        let newer = pod("b", "2", "T2", waiting("ContainerCreating"));
        assert_eq!(stuck(&[crashes.clone(), newer]), None);
        let mut going = crashes;
        going["metadata"]["deletionTimestamp"] = json!("T3");
        assert_eq!(stuck(&[going]), None);
        assert_eq!(stuck(&[]), None);
    }

    #[test]
    fn a_pod_that_failed_says_with_which_code() {
        let ended = pod("a", "1", "T1", json!({"terminated": {"exitCode": 4}}));
        let well = pod("b", "1", "T2", json!({"terminated": {"exitCode": 0}}));
        let found = failed(&[well.clone(), ended]).expect("a failure");
        assert_eq!(found.to_string(), "pod/a: container main ended with exit code 4");
        assert_eq!(failed(&[well]), None);
    }

    #[test]
    fn pods_are_found_by_what_their_owner_selects() {
        let deployment = json!({"kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"a/b": "c", "d": "e"}}}});
        assert_eq!(selector(&deployment).as_deref(), Some("a%2Fb%3Dc,d%3De"));
        let job = json!({"kind": "TrainJob", "metadata": {"name": "t"}});
        assert_eq!(selector(&job).as_deref(), Some("jobset.sigs.k8s.io%2Fjobset-name%3Dt"));
        assert_eq!(selector(&json!({"kind": "ConfigMap", "metadata": {"name": "c"}})), None);
    }
}
